from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphut._dgl import dgl
from graphut.attention import as_layout
from graphut.nn import (
    ACT,
    Convergence,
    Decision,
    EventDriven,
    FixedDepth,
    Global,
    HaltingRule,
    PonderNet,
    Quantile,
    Sampled,
    Threshold,
    parse_rule,
)
from graphut.nn.rules.base import RuleState, StepRows, batch_index
from graphut.topology import Complete

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
    st.builds(EventDriven, st.floats(0.0, 10.0), st.integers(0, 2**40)),
)


inner = single.filter(lambda rule: not isinstance(rule, EventDriven))


@given(st.one_of(single, st.builds(Global, inner)))
def test_parse_rule_reads_what_spec_writes(rule: HaltingRule) -> None:
    assert parse_rule(rule.spec()) == rule


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no halting rule ''; choose one of: .*ponder_net"),
        ("ACT", "there is no halting rule 'ACT'"),
        ("act:0.9", "'act' has no setting '0.9'; its settings: threshold, halt_from, weighting"),
        ("act:threshold=", "threshold of 'act' must be a number, got ''"),
        ("act:forced_remainder=no", "forced_remainder of 'act' must be true or false, got 'no'"),
        ("convergence:patience=1.5", "patience of 'convergence' must be a whole number, got '1.5'"),
        (
            "act:threshold=0.5,threshold=0.6",
            "'act' has the setting 'threshold' twice: give it once",
        ),
        ("convergence:readout=x", "'convergence' has no setting 'readout'"),
        ("convergence:patience=99999999999999999999", r"patience must be below 2\*\*63, got 9"),
        ("global:" * 2000 + "act", "'global' cannot contain another 'global'"),
        ("event_driven:tol=-1", "tol must be 0 or more and finite, got -1.0"),
        ("event_driven:tol=inf", "tol must be 0 or more and finite, got inf"),
        ("event_driven:max_rounds=-1", r"max_rounds must be 0 or more and below 2\*\*63, got -1"),
        ("global:event_driven", "Global cannot contain EventDriven"),
        ("global:nothing", "there is no halting rule 'nothing'"),
        *((f"threshold:threshold={x}", rf"in \(0, 1\], got {x}") for x in (0.0, -1.0, 1.01, "nan")),
        ("act:threshold=0", r"threshold must lie in \(0, 1\], got 0.0"),
        ("act:weighting=mean", "weighting must be one of 'sum', 'ema', 'last', got 'mean'"),
        ("act:halt_from=middle", "halt_from must be one of 'input', 'output', got 'middle'"),
        ("act:cost=steps", "cost must be one of 'steps.remainder', 'remainder', got 'steps'"),
        ("convergence:tol=0", "tol must be above 0, got 0.0"),
        ("convergence:patience=0", "patience must be at least 1"),
        ("ponder_net:threshold=1.1", r"threshold must lie in \(0, 1\], got 1.1"),
        ("ponder_net:prior=1", r"prior must lie in \(0, 1\), got 1.0"),
        ("ponder_net:beta=-1", "beta must be 0 or more, got -1.0"),
        ("quantile:q=0", r"q must lie in \(0, 1\], got 0.0"),
        ("sampled:halt_from=state", "halt_from must be one of .*, got 'state'"),
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


def test_batch_index_of_lengths_and_of_ids() -> None:
    graph, place, number, ids = members = batch_index(Complete().layout([2, 1, 3]))
    assert (graph.tolist(), place.tolist(), number) == ([0, 0, 1, 2, 2, 2], [0, 1, 0, 0, 1, 2], 3)
    assert ids is graph
    large = 2**62
    given = members.renamed(torch.tensor([large, 0, large, large, large, large]))
    # The id of a graph in the batch may come in others, too: places are counted by both.
    assert given.graph.tolist() == [1, 0, 1, 1, 1, 1] and given.num_graphs == 2
    assert given.ids.tolist() == [large, 0, large, large, large, large]
    assert given.place.tolist() == [0, 0, 0, 0, 1, 2]
    whole = batch_index(Complete().layout([6]))
    found = whole.renamed(torch.tensor([0, 0, 1, 2, 2, 2]))
    assert all(map(torch.equal, found[:2], members[:2])) and found.num_graphs == 3
    empty = batch_index(as_layout(dgl.graph(([], []), num_nodes=0)))
    assert empty.renamed(torch.zeros(0, dtype=torch.int64)).num_graphs == 1


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (torch.tensor([0, 1]), r"graph_ids must be \(3,\) int64, one for each node; got \(2,\) of"),
        (torch.zeros(3), "got .* of torch.float32"),
        (torch.tensor([0, -1, 0]), "graph_ids must be 0 or more, got -1"),
    ],
)
def test_batch_index_refuses_wrong_ids(ids: Tensor, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        batch_index(Complete().layout([3])).renamed(ids)
    with pytest.raises(TypeError, match="graph_ids must be a tensor, got list"):
        batch_index(Complete().layout([3])).renamed(ids.tolist())


@dataclass(frozen=True)
class Column(HaltingRule):
    """A rule that returns a column, `(A, 1)`, by mistake."""

    def decide(self, memory: Any, measure: Tensor, rows: Any) -> Any:
        return Decision(measure[:, None] > 0.5), memory


def test_rule_state_refuses_a_decision_of_a_wrong_shape() -> None:
    state, rows = RuleState(Column(), torch.zeros(2, 4)), torch.zeros(2, 4)
    with pytest.raises(ValueError, match=r"Column.decide must .* \(2,\) bools, .*; got \(2, 1\)"):
        state.update(StepRows(rows, rows, torch.zeros(2), 1, False))
    with pytest.raises(ValueError, match=r"Column.*cannot be written as text"):
        Column().spec()


@pytest.mark.parametrize("weighting", ["sum", "ema", "last"])
def test_rule_state_takes_states_that_autocast_has_widened(weighting: str) -> None:
    narrow, half = torch.ones(2, 3, dtype=torch.bfloat16), torch.full((2,), 0.5)
    state = RuleState(ACT(weighting=weighting), narrow)
    for step in (1, 2):
        state.update(StepRows(narrow, narrow.float(), half, step, is_last=step == 2))
    assert state.out.dtype == torch.float32
    expected = 0.75 if weighting == "ema" else 1.0
    assert torch.equal(state.out, torch.full((2, 3), expected))
