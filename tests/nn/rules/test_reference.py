"""The rules, on packed rows that leave one by one, against decisions from whole histories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphut.nn import ACT, HaltingRule
from graphut.nn.rules.base import GraphMembers, RuleState, StepRows
from graphut.nn.rules.reference import History, dense_decision
from tests.helpers import assert_same, gradients, normal
from tests.nn.cases import RULES

ALL = {"act": ACT(threshold=0.8), "act-cost": ACT(cost="remainder", weighting="last"), **RULES}


def history_of(lengths: list[int], cap: int, seed: int) -> tuple[Tensor, Tensor, GraphMembers]:
    """Random states `(T + 1, N, d)` and probabilities `(T, N)` of nodes that slowly calm down."""
    nodes = sum(lengths)
    states = normal(cap + 1, nodes, 3, seed=seed).detach().cumsum(0)
    probability = torch.sigmoid(normal(cap, nodes, seed=seed + 1).detach() - 0.7)
    members = GraphMembers.of(torch.tensor(lengths), None, torch.device("cpu"))
    return states, probability.requires_grad_(), members


def from_histories(
    rule: HaltingRule, states: Tensor, p: Tensor, members: GraphMembers
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


def packed(
    rule: HaltingRule, states: Tensor, p: Tensor, members: GraphMembers
) -> tuple[Tensor, ...]:
    """The same by the rule's own code, on rows that leave."""
    cap, nodes = len(p), torch.arange(p.shape[1])
    state = RuleState.start(rule, cap, states[0], members)
    steps, weights, remainder, cost = torch.zeros(4, p.shape[1], dtype=torch.float64)
    for t in range(1, cap + 1):
        rows = states[t, nodes]
        found = state.update(rows, rows, p[t - 1, nodes], t)
        steps = steps.index_add(0, nodes, torch.ones(len(nodes), dtype=torch.float64))
        if rule.weighting != "last":
            weights = weights.index_add(0, nodes, t * found.weight)
        gone = nodes[found.halts]
        remainder = remainder.index_add(0, gone, found.remainder[found.halts])
        cost = cost.index_add(0, gone, found.cost[found.halts])
        stay = (~found.halts).nonzero()[:, 0]
        nodes = nodes[stay]
        state.keep(stay)
    assert not len(nodes)
    return steps, weights, remainder, cost


@pytest.mark.parametrize("name", ALL)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(1, 6), st.integers(0, 99))
def test_dense_decision_is_what_the_rules_code_decides(
    name: str, lengths: list[int], cap: int, seed: int
) -> None:
    states, p, members = history_of(lengths, cap, seed)
    found, expected = (run(ALL[name], states, p, members) for run in (packed, from_histories))
    assert_same(found, expected)
    assert_same(gradients(found, [p]), gradients(expected, [p]))


@pytest.mark.parametrize("name", ALL)
def test_dense_decision_the_rows_of_these_tests_halt_at_different_steps(name: str) -> None:
    states, p, members = history_of([2] * 20, 6, seed=5)
    steps, *_ = packed(ALL[name], states, p, members)
    assert name == "fixed" or len(steps.unique()) > 1


@dataclass(frozen=True)
class Halved(ACT):
    """ACT that adds up half of each probability."""

    def decide(self, memory: Any, measure: Tensor, rows: StepRows) -> Any:
        return super().decide(memory, measure / 2, rows)


def test_dense_decision_runs_the_code_of_an_unknown_rule() -> None:
    given_ = history_of([9], 6, seed=5)
    found = packed(Halved(), *given_)
    assert_same(found, from_histories(Halved(), *given_))
    assert not torch.equal(found[0], packed(ACT(), *given_)[0])
