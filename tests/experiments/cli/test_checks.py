from __future__ import annotations

import pytest

from graphut.experiments.cli.checks import RULES, TOPOLOGIES, check_device, check_names
from graphut.nn.rules import base
from graphut.topology.registry import registry


def test_checks_know_the_names_of_all_rules_and_topologies() -> None:
    def own(table: dict[str, type]) -> set[str]:
        return {name for name, kind in table.items() if kind.__module__.startswith("graphut.")}

    assert own(base.RULES) == {*RULES} and own(registry) == {*TOPOLOGIES}


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        (
            "rule",
            "act1:threshold=2",
            "unknown halting rule 'act1', did you mean act. Known",
        ),
        (
            "evaluation_rule",
            "sure",
            "unknown halting rule 'sure'; known are fixed, .*--import",
        ),
        ("encoder_topology", "windw:3", "unknown topology 'windw', did you mean window. Known"),
        ("specs", ["star", "causal&(star|Star)"], "unknown topology 'Star', did you mean star"),
    ],
)
def test_check_names_quotes_what_is_unknown(option: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_names({option: value})


def test_check_names_leaves_the_rest_to_the_parsers() -> None:
    check_names({"topology": ["window:a|random:3@7", None, "bigbird:1,2,3"], "spec": "|"})
    check_names({"rule": "act:threshold=0.9", "evaluation_rule": "", "set": "test"})


@pytest.mark.parametrize("name", ["abacus", "meta", "mps", ""])
def test_check_device_refuses_other_devices(name: str) -> None:
    with pytest.raises(ValueError, match=f'must be "cpu", "cuda" or, .*; got {name!r}'):
        check_device(name)
