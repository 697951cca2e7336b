from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib.machinery import ModuleSpec
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch

from graphut.experiments.cli import checks
from graphut.experiments.cli.checks import RULES, TOPOLOGIES, check_device, check_specs
from graphut.nn.rules import base, parse_rule
from graphut.topology import parse
from graphut.topology.registry import registry
from tests.topology import catalogue


def own(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: kind for name, kind in table.items() if kind.__module__.startswith("graphut.")}


def test_checks_know_all_rules_with_their_settings() -> None:
    assert {
        name: {f.name: f.default for f in fields(kind) if isinstance(f.default, base._SCALARS)}
        for name, kind in own(base.RULES).items()
    } == RULES


def test_checks_know_all_topologies_with_their_parameters() -> None:
    def parameters(make: Callable[..., Any]) -> list[tuple[Any, ...]]:
        return [(p.name, p.kind, p.default) for p in signature(make).parameters.values()]

    known = {name: parameters(make) for name, make in TOPOLOGIES.items()}
    assert known == {name: parameters(make) for name, make in own(registry).items()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"rule": "act1:threshold=2", "task": "copy"},
            "rule cannot be 'act1:threshold=2': there is no halting rule 'act1', did you mean act",
        ),
        ({"evaluation_rule": "sure"}, "there is no halting rule 'sure'; choose one of: fixed, act"),
        (
            {"encoder_topology": "windw:3", "task": "copy"},
            "encoder_topology cannot be 'windw:3': unknown topology 'windw', did you mean window",
        ),
        ({"specs": ["star", "causal&(star|Star)"]}, "unknown topology 'Star', did you mean star"),
    ],
)
def test_check_specs_quotes_what_is_unknown(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_specs(options)


@pytest.mark.parametrize(
    ("option", "spec"),
    [
        ("rule", "act:treshold=.5"),
        ("rule", "act:threshold=abc"),
        ("evaluation_rule", "global:sampled:seed=.5"),
        ("topology", "window"),
        ("topology", "star|window:x"),
        ("topology", "causal&(longformer:1,2,3)"),
        ("topology", "window:3@7"),
        ("topology", "(causal"),
        ("topology", "|"),
    ],
)
def test_check_specs_says_what_the_parsers_say(option: str, spec: str) -> None:
    with pytest.raises(ValueError) as expected:  # noqa: PT011
        parse(spec) if option == "topology" else parse_rule(spec)
    with pytest.raises(ValueError) as found:  # noqa: PT011
        check_specs({option: spec})
    assert str(found.value).split("; known are")[0] == str(expected.value).split("; known are")[0]


def test_check_specs_leaves_the_rest_to_the_parsers() -> None:
    check_specs({"topology": [*catalogue.ALL], "spec": None})
    check_specs({"topology": "bigbird:1,2,3|window:-1", "set": "test"})
    check_specs({"rule": "act:threshold=9", "evaluation_rule": ""})
    for rule in ("global", "global:", "global:act:cost=remainder", "global:" * 2000 + "act"):
        check_specs({"rule": rule})


@pytest.mark.parametrize("name", ["abacus", "meta", "mps", "", "cuda:x"])
def test_check_device_refuses_other_devices(name: str) -> None:
    with pytest.raises(ValueError, match=f'must be "cpu", "cuda" or, .*; got {name!r}'):
        check_device(name)


def test_check_device_knows_whether_torch_is_built_for_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checks._torch_is_for_cpus() is (torch.version.cuda is torch.version.hip is None)
    origin = str(tmp_path / "__init__.py")
    monkeypatch.setattr(checks, "find_spec", lambda name: ModuleSpec(name, None, origin=origin))
    check_device("cuda")  # without version.py, torch decides
    for text in ("cuda = '12.4'; hip = None", "cuda = None; hip = '6.2'", "cuda = None"):
        (tmp_path / "version.py").write_text(text)
        check_device("cuda:1")
    (tmp_path / "version.py").write_text("cuda = None; hip = None")
    with pytest.raises(ValueError, match="there is no device 'cuda:1' here: Torch not compiled"):
        check_device("cuda:1")
