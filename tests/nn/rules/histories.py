"""Plain versions of the halting rules, which decide from whole histories of states.

All nodes are present in every step; decisions about halted nodes are ignored.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import Tensor

from graphut.nn import (
    ACT,
    AdaptiveRecurrence,
    Convergence,
    Decision,
    FixedDepth,
    Global,
    HaltingRule,
    PonderNet,
    Threshold,
)
from graphut.nn.rules.base import BatchIndex, Memory, StepRows
from tests.nn.reference import dense_recurrence


@dataclass
class History:
    """The first states `(N, d)`, the graphs, and the states of each step so far."""

    first: Tensor
    members: BatchIndex
    steps: list[StepRows] = field(default_factory=list)


def dense_decision(rule: HaltingRule, history: History) -> Decision:
    """Return the decision of a rule after the last step, `(N,)` each."""
    inner = rule
    numbers = _numbers(rule.rule if type(rule) is Global else rule, history)
    if type(rule) is Global:
        graph = history.members.graph
        same = (graph[:, None] == graph).to(numbers[0].dtype)
        numbers = [same @ number / same.sum(1) for number in numbers]
        inner = rule.rule
    last, t = history.steps[-1], len(history.steps)
    *earlier, now = numbers
    if type(inner) is FixedDepth:
        return Decision(torch.zeros_like(now, dtype=torch.bool))
    if type(inner) is ACT:
        spent = torch.zeros_like(now) + sum(earlier)
        return _closing(inner, spent, now, last, reached=spent + now >= inner.threshold)
    if type(inner) is Threshold:
        return Decision(now >= inner.threshold)
    if type(inner) is Convergence:
        calm = torch.stack([number < inner.tol for number in numbers[-inner.patience :]])
        return Decision(calm.all(0) & (t >= inner.patience))
    if type(inner) is PonderNet:
        return _ponder_net(inner, numbers, last)
    raise AssertionError(f"no plain version of {rule}")


def _numbers(rule: HaltingRule, history: History) -> list[Tensor]:
    """Return the values `(N,)` that a rule compares, for each step so far."""
    if type(rule) is not Convergence:
        zeros = history.first.new_zeros(len(history.first))
        return [zeros if s.probability is None else s.probability for s in history.steps]
    states = [history.first.detach(), *(s.after.detach() for s in history.steps)]
    return [(b - a).norm(dim=1) / b.norm(dim=1) for a, b in pairwise(states)]


def _closing(rule: ACT, spent: Tensor, now: Tensor, rows: StepRows, reached: Tensor) -> Decision:
    closes = reached | (rows.is_last and rule.forced_remainder)
    remainder = torch.where(closes, 1.0 - spent, 0.0)
    cost = remainder + (rows.step if rule.cost == "steps+remainder" else 0)
    return Decision(reached, torch.where(closes, 1.0 - spent, now), remainder, cost)


def _ponder_net(rule: PonderNet, p: list[Tensor], rows: StepRows) -> Decision:
    left = [torch.ones_like(p[0]) * prod(1.0 - q for q in p[:s]) for s in range(len(p))]
    weights = [a * b for a, b in zip(p, left, strict=True)]
    least = 1 if rule.weighting == "last" else 2
    reached = (torch.stack(weights).sum(0) >= rule.threshold) & (len(p) >= least)
    closes = reached | rows.is_last
    weight = torch.where(closes, left[-1], weights[-1])
    prior = torch.tensor(
        [rule.prior * (1.0 - rule.prior) ** s for s in range(len(p))], dtype=torch.float64
    )
    w = torch.stack([*weights[:-1], weight])
    divergence = torch.special.xlogy(w, w / (prior / prior.sum())[:, None]).sum(0)
    return Decision(reached, weight, torch.where(closes, left[-1], 0.0), rule.beta * divergence)


@dataclass(frozen=True)
class FromHistory(HaltingRule):
    """A rule that decides from the whole history, for `dense_recurrence`."""

    rule: HaltingRule

    def __post_init__(self) -> None:
        for name in ("weighting", "halt_from", "uses_probability"):
            object.__setattr__(self, name, getattr(self.rule, name))

    def start(self, rows: Tensor, members: BatchIndex | None) -> Memory:
        assert members is not None
        return (History(rows, members),)

    def measure(self, memory: Memory, rows: StepRows) -> Tensor:
        return rows.after[:, 0]  # not looked at

    def decide(self, memory: Memory, measure: Tensor, rows: StepRows) -> tuple[Decision, Memory]:
        memory[0].steps.append(rows)
        return dense_decision(self.rule, memory[0]), memory


def plain_recurrence(layer: AdaptiveRecurrence, *arguments: Any, **options: Any) -> Any:
    """Call `dense_recurrence` with a rule that decides from the whole history."""
    rule = layer.rule
    layer.rule = FromHistory(rule)
    try:
        return dense_recurrence(layer, *arguments, **options)
    finally:
        layer.rule = rule
