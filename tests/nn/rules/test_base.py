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
from graphut.nn.rules.base import BatchIndex, RuleState, StepRows, batch_index
from graphut.topology import Complete
from tests.helpers import assert_same, gradients, normal
from tests.nn.cases import RULES
from tests.nn.rules.histories import History, dense_decision

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
        ("convergence:patience=99999999999999999999", r"patience must be below 2\*\*63, got 9"),
        ("global:" * 2000 + "act", "'global' cannot contain another 'global'"),
        ("event_driven:tol=-1", "tol must be 0 or more and finite, got -1.0"),
        ("global:event_driven", "Global cannot contain EventDriven"),
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


# The rules, on packed rows that leave one by one, against decisions from whole histories.

ALL = {"act": ACT(threshold=0.8), "act-cost": ACT(cost="remainder", weighting="last"), **RULES}


def history_of(lengths: list[int], cap: int, seed: int) -> tuple[Tensor, Tensor, BatchIndex]:
    """Random states `(T + 1, N, d)` and probabilities `(T, N)` of nodes that slowly calm down."""
    nodes = sum(lengths)
    states = normal(cap + 1, nodes, 3, seed=seed).detach().cumsum(0)
    probability = torch.sigmoid(normal(cap, nodes, seed=seed + 1).detach() - 0.7)
    members = batch_index(Complete().layout(lengths))
    return states, probability.requires_grad_(), members


def from_histories(
    rule: HaltingRule, states: Tensor, p: Tensor, members: BatchIndex
) -> tuple[Tensor, ...]:
    """Steps, sums of the weights, remainders, costs and outputs; every node at every step."""
    cap, history = len(p), History(states[0], members)
    active = torch.ones(p.shape[1], dtype=torch.bool)
    steps, weights, remainder, cost = torch.zeros(4, p.shape[1], dtype=torch.float64)
    for t in range(1, cap + 1):
        history.steps.append(StepRows(states[t], states[t], p[t - 1], t, t == cap))
        found = dense_decision(rule, history)
        halts = active & (found.halts | (t == cap))
        if found.weight is not None and rule.weighting != "last":
            weights = weights + torch.where(active, t * found.weight, 0.0)
        if found.remainder is not None and found.cost is not None:
            remainder = torch.where(halts, found.remainder, remainder)
            cost = torch.where(halts, found.cost, cost)
        steps, active = steps + active, active & ~halts
    return steps, weights, remainder, cost


def masked(rule: HaltingRule, states: Tensor, p: Tensor, members: BatchIndex) -> tuple[Tensor, ...]:
    """The same by the code of the rule, with a mask of rows that have not halted."""
    state, active = RuleState(rule, states[0], members), torch.ones(p.shape[1], dtype=torch.bool)
    steps, weights, remainder, cost = torch.zeros(4, p.shape[1], dtype=torch.float64)
    for t in range(1, len(p) + 1):
        rows = StepRows(states[t], states[t], p[t - 1], t, t == len(p))
        halts = state.update(rows, active)
        if rule.weighting != "last":
            weights = weights + t * state.weight
        remainder = torch.where(halts, state.remainder, remainder)
        cost = torch.where(halts, state.cost, cost)
        steps, active = steps + active, active & ~halts
    return steps, weights, remainder, cost


def packed(rule: HaltingRule, states: Tensor, p: Tensor, members: BatchIndex) -> tuple[Tensor, ...]:
    """The same by the code of the rule, on rows that leave."""
    cap, nodes = len(p), torch.arange(p.shape[1])
    state = RuleState(rule, states[0], members)
    steps, weights, remainder, cost = torch.zeros(4, p.shape[1], dtype=torch.float64)
    for t in range(1, cap + 1):
        rows = states[t, nodes]
        halts = state.update(StepRows(rows, rows, p[t - 1, nodes], t, t == cap))
        steps = steps.index_add(0, nodes, torch.ones(len(nodes), dtype=torch.float64))
        if rule.weighting != "last":
            weights = weights.index_add(0, nodes, t * state.weight)
        gone = nodes[halts]
        remainder = remainder.index_add(0, gone, state.remainder[halts])
        cost = cost.index_add(0, gone, state.cost[halts])
        stay = (~halts).nonzero()[:, 0]
        nodes = nodes[stay]
        state.keep(stay)
    assert not len(nodes)
    return steps, weights, remainder, cost


@pytest.mark.parametrize("name", ALL)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(1, 6), st.integers(0, 99))
def test_every_rule_decides_as_from_the_whole_history(
    name: str, lengths: list[int], cap: int, seed: int
) -> None:
    states, p, members = history_of(lengths, cap, seed)
    ways = (from_histories, packed) if "global" in name else (from_histories, packed, masked)
    results = [run(ALL[name], states, p, members) for run in ways]
    for found in results:
        assert_same(found, results[0])
    first, *others = (gradients(found, [p]) for found in results)
    for slopes in others:
        assert_same(slopes, first)


@pytest.mark.parametrize("name", ALL)
def test_the_rows_of_these_tests_halt_at_different_steps(name: str) -> None:
    states, p, members = history_of([2] * 20, 6, seed=5)
    steps, *_ = packed(ALL[name], states, p, members)
    assert name == "fixed" or len(steps.unique()) > 1


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
    """A rule that forgets to drop the column."""

    def decide(self, memory: Any, measure: Tensor, rows: Any) -> Any:
        return Decision(measure[:, None] > 0.5), memory


def test_rule_state_refuses_a_decision_of_a_wrong_shape() -> None:
    state, rows = RuleState(Column(), torch.zeros(2, 4)), torch.zeros(2, 4)
    with pytest.raises(ValueError, match=r"Column.decide must .* \(2,\) bools, .*; got \(2, 1\)"):
        state.update(StepRows(rows, rows, torch.zeros(2), 1, False))
    with pytest.raises(ValueError, match=r"Column.*cannot be written as text"):
        Column().spec()


def test_rule_state_keeps_rows_of_tensors_and_other_values() -> None:
    state = RuleState(ACT(), torch.zeros(4, 2))
    state.memory, state.out = (torch.arange(4), 7), torch.arange(8.0).view(4, 2)
    state.keep(torch.tensor([1, 3]))
    assert (state.memory[0].tolist(), state.memory[1]) == ([1, 3], 7)
    assert state.out.tolist() == [[2.0, 3.0], [6.0, 7.0]]
    state.keep_first(1)
    assert (state.memory[0].tolist(), state.memory[1], len(state.out)) == ([1], 7, 1)


@pytest.mark.parametrize("weighting", ["sum", "ema", "last"])
def test_rule_state_takes_states_that_autocast_has_widened(weighting: str) -> None:
    narrow, half = torch.ones(2, 3, dtype=torch.bfloat16), torch.full((2,), 0.5)
    state = RuleState(ACT(weighting=weighting), narrow)
    for step in (1, 2):
        state.update(StepRows(narrow, narrow.float(), half, step, is_last=step == 2))
    assert state.out.dtype == torch.float32
    expected = 0.75 if weighting == "ema" else 1.0
    assert torch.equal(state.out, torch.full((2, 3), expected))
