from __future__ import annotations

import pytest

from graphut._specs import TopologyParser, rule_settings, signatures, split_rule

MAKERS = {"near": lambda radius, seed=0: f"near {radius} {seed}", "some": lambda *tokens: tokens}
OPERATORS = {"|": lambda left, right: (left, right), "&": lambda left, right: [left, right]}


def test_split_rule_finds_an_entry_and_its_settings() -> None:
    assert split_rule("act:threshold=0.9", {"act": 1}) == (1, "threshold=0.9")
    assert split_rule("act", {"act": 1}) == (1, "")
    with pytest.raises(
        ValueError, match=r"no halting rule 'atc', did you mean act\? Choose one of"
    ):
        split_rule("atc", {"act": 1})
    with pytest.raises(ValueError, match="no halting rule 'sure'; choose one of: act, fixed "):
        split_rule("sure", {"act": 1, "fixed": 2})


def test_rule_settings_have_the_types_of_the_defaults() -> None:
    defaults = {"tol": 0.5, "count": 1, "sure": True, "kind": "sum"}
    found = rule_settings("own", defaults, "tol=1,count=2,sure=false,kind=last")
    assert [*map(repr, found.values())] == ["1.0", "2", "False", "'last'"]
    assert rule_settings("own", defaults, "") == {}


def test_topology_parser_calls_the_makers() -> None:
    assert signatures(MAKERS) == ["near:radius@seed", "some:tokens,..."]
    found = TopologyParser("near:3@7 | some:1,2 & some", MAKERS, OPERATORS).parse()
    assert found == ("near 3 7", [(1, 2), ()])
    with pytest.raises(ValueError, match=r"near takes 1 integer \(radius\), got 2\n"):
        TopologyParser("near:3,4", MAKERS, OPERATORS).parse()
