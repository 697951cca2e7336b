from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphut.nn import (
    ACT,
    Convergence,
    Decision,
    FixedDepth,
    Global,
    HaltingRule,
    PonderNet,
    Quantile,
    Sampled,
    Threshold,
    parse_rule,
)
from graphut.nn.rules.base import GraphMembers, RuleState

shares = st.floats(1e-6, 1.0 - 1e-6)
states_read = st.sampled_from(["input", "output"])
single = st.one_of(
    st.builds(ACT, shares, states_read, st.sampled_from(["sum", "ema", "last"]), st.booleans()),
    st.builds(PonderNet, shares, shares, st.floats(0.0, 10.0), states_read),
    st.builds(Quantile, shares, states_read),
    st.builds(Sampled, st.integers(-3, 2**40), states_read),
    st.builds(Threshold, shares, states_read),
    st.builds(Convergence, st.floats(1e-9, 10.0), st.integers(1, 9)),
    st.builds(FixedDepth, states_read),
)


@given(st.one_of(single, st.builds(Global, single)))
def test_parse_rule_reads_what_spec_writes(rule: HaltingRule) -> None:
    assert parse_rule(rule.spec()) == rule


def test_spec_names_what_is_not_the_default() -> None:
    assert ACT().spec() == "act"
    assert ACT(forced_remainder=False, weighting="ema").spec() == (
        "act:weighting=ema,forced_remainder=false"
    )
    assert Global(Threshold(0.25)).spec() == "global:threshold:threshold=0.25"
    assert parse_rule("global") == Global(ACT())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no halting rule ''; choose one of: .*ponder_net"),
        ("ACT", "there is no halting rule 'ACT'"),
        ("act:0.9", "'act' has no setting '0.9'; its settings: threshold, halt_from, weighting"),
        ("act:threshold=", "threshold of 'act' must be a number, got ''"),
        ("act:forced_remainder=no", "forced_remainder of 'act' must be true or false, got 'no'"),
        ("convergence:patience=1.5", "patience of 'convergence' must be a whole number, got '1.5'"),
        ("convergence:readout=x", "'convergence' has no setting 'readout'"),
        ("global:nothing", "there is no halting rule 'nothing'"),
        ("threshold:threshold=nan", r"threshold must lie in \(0, 1\], got nan"),
    ],
)
def test_parse_rule_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_rule(text)


@pytest.mark.parametrize(
    "rule", [Convergence(readout=torch.relu), Global(Convergence(readout=len))]
)
def test_spec_refuses_what_is_no_text(rule: HaltingRule) -> None:
    with pytest.raises(ValueError, match="cannot be written as text"):
        rule.spec()


def test_graph_members_of_lengths_and_of_ids() -> None:
    cpu = torch.device("cpu")
    graph, place, number = GraphMembers.of(torch.tensor([2, 0, 3]), None, cpu)
    assert (graph.tolist(), place.tolist(), number) == ([0, 0, 2, 2, 2], [0, 1, 0, 1, 2], 3)
    graph, place, number = GraphMembers.of(torch.tensor([3]), torch.tensor([4, 0, 4]), cpu)
    assert (graph.tolist(), place.tolist(), number) == ([4, 0, 4], [0, 1, 2], 5)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (torch.tensor([0, 1]), r"graph_ids must be \(3,\) int64, one a node; got \(2,\) of"),
        (torch.zeros(3), "got .* of torch.float32"),
        (torch.tensor([0, -1, 0]), "graph_ids must be 0 or more, got -1"),
    ],
)
def test_graph_members_refuses_wrong_ids(ids: Tensor, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        GraphMembers.of(torch.tensor([3]), ids, torch.device("cpu"))


@dataclass(frozen=True)
class Column(HaltingRule):
    """A rule that forgets to drop the column."""

    def decide(self, memory: Any, measure: Tensor, rows: Any) -> Any:
        return Decision(measure[:, None] > 0.5), memory


def test_rule_state_refuses_a_decision_of_a_wrong_shape() -> None:
    state, rows = RuleState.start(Column(), 3, torch.zeros(2, 4)), torch.zeros(2, 4)
    with pytest.raises(ValueError, match=r"Column.decide must .* \(2,\) bools .*; got \(2, 1\)"):
        state.update(rows, rows, torch.zeros(2), 1)
    with pytest.raises(ValueError, match=r"Column.*cannot be written as text"):
        Column().spec()


def test_rule_state_keeps_rows_of_tensors_and_other_values() -> None:
    state = RuleState(ACT(), 3, (torch.arange(4), 7), torch.arange(8.0).view(4, 2))
    state.keep(torch.tensor([1, 3]))
    assert (state.memory[0].tolist(), state.memory[1]) == ([1, 3], 7)
    assert state.out.tolist() == [[2.0, 3.0], [6.0, 7.0]]
    state.keep_first(1)
    assert (state.memory[0].tolist(), state.memory[1], len(state.out)) == ([1], 7, 1)
