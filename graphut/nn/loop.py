"""The adaptive loop: one step, repeated over a frontier that shrinks.

`_run_frontier` computes the active nodes and nothing else. `_run_everyone` computes all nodes at
every step, for models without halting and for `halted="running"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from graphut.nn.act import ACTState, HaltingRule
from graphut.nn.context import AttentionContext
from graphut.nn.coordinates import step_signals
from graphut.nn.finite_checks import AsyncFiniteChecks, FiniteChecks
from graphut.nn.frontier import DeviceFrontier, Frontier, HaltedOutputs, add_encoding
from graphut.nn.halted import HALTED_NODES, StepInput
from graphut.nn.step import UniversalTransformerStep


class LoopOutput(NamedTuple):
    """Output states `(N, d)`, steps `(N,)` and remainders `(N,)` of the nodes that take steps."""

    out: Tensor
    steps: Tensor
    remainder: Tensor


@dataclass(frozen=True)
class AdaptiveLoop:
    """Settings of the loop, and one step for all repetitions or one for each.

    `AdaptiveRecurrence` says what each setting means.
    """

    steps: Sequence[UniversalTransformerStep]
    halting: nn.Module | None
    rule: HaltingRule
    halted: str
    halt_from: str

    def run(
        self,
        context: AttentionContext,
        feat: Tensor,
        position_encoding: Tensor | None,
        num_dst: int,
        *,
        checks: FiniteChecks | None = None,
        settle: bool = False,
    ) -> LoopOutput:
        """Repeat the step, and return the result of the first `num_dst` nodes.

        The context holds keys and values of all nodes, `feat`, `(N_src, d)`, their first states,
        to which the `position_encoding` is added at every step. With `AsyncFiniteChecks` the loop
        does not wait for the number of active nodes; it needs attention that takes such counts.
        With `settle` it goes on until keys and values are those of step `max_steps`, for nodes to
        come that take more steps: a decoding cache needs it.
        """
        checks = FiniteChecks() if checks is None else checks
        if self.halting is None or self.halted == "running" or not context.num_dst:
            result = _run_everyone(self, context, feat, position_encoding, checks, settle)
            if len(result.steps) > num_dst:  # nobody was left for the last blocks
                result = LoopOutput(*(part[:num_dst] for part in result))
        else:
            frontier: Frontier
            if isinstance(checks, AsyncFiniteChecks):
                frontier = DeviceFrontier(feat, position_encoding, context.num_dst, checks)
            else:
                frontier = Frontier(feat, position_encoding, context.num_dst)
            result = _run_frontier(self, context, frontier, feat, num_dst, checks, settle)
        return result._replace(out=self.step(self.rule.max_steps).readout(result.out))

    @property
    def is_hooked(self) -> bool:
        """True if hooks act on a step or on its attention."""
        return any(step.is_hooked for step in self.steps)

    def step(self, repetition: int) -> UniversalTransformerStep:
        """Return the step of repetition 1, 2, ..., `max_steps`."""
        return self.steps[0] if len(self.steps) == 1 else self.steps[repetition - 1]

    def signal(self, step: int, like: Tensor) -> Tensor:
        """Return the signal of a step, `(d,)`, in the dtype and on the device of `like`."""
        signals = step_signals(self.rule.max_steps, like.shape[1], like.dtype, like.device)
        return signals[step - 1]

    def probability(self, before: Tensor, after: Tensor, nodes: Tensor | None, step: int) -> Tensor:
        """Return the halting probability of rows, from their states before or after a step."""
        assert self.halting is not None
        chosen = before if self.halt_from == "input" else after
        probability: Tensor = self.halting(chosen, nodes, step)
        return probability


def _run_frontier(
    loop: AdaptiveLoop,
    context: AttentionContext,
    frontier: Frontier,
    feat: Tensor,
    num_dst: int,
    checks: FiniteChecks,
    settle: bool,
) -> LoopOutput:
    """Compute the active nodes of each step, in packed rows."""
    act, outputs = ACTState.start(loop.rule, feat[: context.num_dst]), HaltedOutputs()
    for t in range(1, loop.rule.max_steps + 1):
        before = _bring_up_to_date(loop, context, frontier, t)
        if context.num_dst < frontier.num_dst:  # the destinations of sampled blocks become fewer
            before = before[: frontier.restrict(context.num_dst)]
            act.keep_first(frontier.num_active)
        context.frontier, context.count = frontier.nodes, frontier.count
        after = loop.step(t).update(before, context)
        probability = loop.probability(before, after, frontier.existing_nodes, t)
        checks.check_probability(probability, frontier.nodes, t)
        halts, remainder = act.update(after, probability, t)
        split = frontier.advance(after, halts)
        outputs.add(split, act.out, remainder, t)
        if not frontier.num_active:
            break
        act.keep(split.active_rows)
    if settle:
        more = HALTED_NODES[loop.halted].steps_to_settle(loop.step(t), loop.rule.max_steps)
        for later in range(t + 1, min(t + more, loop.rule.max_steps) + 1):
            _bring_up_to_date(loop, context, frontier, later)
    return LoopOutput(*outputs.in_order(len(feat), num_dst))


def _bring_up_to_date(
    loop: AdaptiveLoop, context: AttentionContext, frontier: Frontier, t: int
) -> Tensor:
    """Write the keys and values of a step; return the active rows with their signals."""
    context.begin_step(t)
    signal = loop.signal(t, frontier.last())
    given = StepInput(loop.step(t), signal, frontier.active() + signal)
    HALTED_NODES[loop.halted].write(context, frontier, given)
    return given.rows


def _run_everyone(
    loop: AdaptiveLoop,
    context: AttentionContext,
    feat: Tensor,
    position_encoding: Tensor | None,
    checks: FiniteChecks,
    settle: bool,
) -> LoopOutput:
    """Compute all nodes at every step; a mask keeps the outputs of those that have halted."""
    states, act = feat, ACTState.start(loop.rule, feat[: context.num_dst])
    active = torch.ones_like(act.cumulative, dtype=torch.bool)
    steps, remainder = torch.zeros_like(active, dtype=torch.int64), torch.zeros_like(act.cumulative)
    for t in range(1, loop.rule.max_steps + 1):
        context.begin_step(t)
        before, states = _step_of_everyone(loop, context, states, feat, position_encoding, t)
        if len(states) < len(active):  # the destinations of sampled blocks become fewer
            active, steps, remainder = (x[: len(states)] for x in (active, steps, remainder))
            act.keep_first(len(states))
        steps = steps + active
        if loop.halting is None:
            continue
        nodes = None if len(states) == len(feat) else torch.arange(len(states), device=feat.device)
        probability = loop.probability(before, states, nodes, t)
        checks.check_probability(probability, nodes, t)
        halts, remainder_now = act.update(states, probability, t, active)
        remainder = torch.where(halts, remainder_now, remainder)
        active = active & ~halts
        if not (settle or checks.bound(active.sum())):
            break
    return LoopOutput(states if loop.halting is None else act.out, steps, remainder)


def _step_of_everyone(
    loop: AdaptiveLoop,
    context: AttentionContext,
    states: Tensor,
    feat: Tensor,
    position_encoding: Tensor | None,
    t: int,
) -> tuple[Tensor, Tensor]:
    """Return the states before and after a step; source-only nodes show their first states."""
    step, num_src = loop.step(t), context.num_src
    if len(states) < num_src:
        states = torch.cat([states, feat[len(states) :]])
    encoding = None if position_encoding is None else position_encoding[:num_src]
    shown = add_encoding(states, encoding) + loop.signal(t, feat)
    context.write(None, step.project(shown))
    before = shown[: context.num_dst]
    return before, step.update(before, context)
