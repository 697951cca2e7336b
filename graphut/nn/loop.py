"""The adaptive loop: one step, repeated over a frontier that shrinks.

`_Run.over_frontier` computes the active nodes and nothing else. `_Run.over_everyone` computes all
nodes at every step, for models without halting and for `halted="running"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from graphut.attention.checks import has_no_numbers, skip_checks
from graphut.nn.checks import check_probability_shape
from graphut.nn.context import AttentionContext, GraphContext
from graphut.nn.finite_checks import AsyncFiniteChecks, FiniteChecks
from graphut.nn.frontier import DeviceFrontier, Frontier, HaltedOutputs, add_encoding
from graphut.nn.halted import HALTED_NODES, Copied, HaltedNodes, StepInput
from graphut.nn.noise import InputNoise, Noise, draw_noise, with_noise
from graphut.nn.ponder import WakingRecord
from graphut.nn.quantized import Quantized
from graphut.nn.rules.act import ACT
from graphut.nn.rules.base import FixedDepth, GraphMembers, HaltingRule, RuleState, StepRows
from graphut.nn.rules.event_driven import EventDriven
from graphut.nn.signals import Signal, encode, step_signals
from graphut.nn.step import UniversalTransformerStep
from graphut.nn.waking import Start, WakingFrontier, squared_change

if TYPE_CHECKING:
    from graphut.nn.fused_act import FusedFrontier


class StepAdditions(NamedTuple):
    """Terms that are added to the states of nodes at the steps of one call."""

    encodings: Tensor | None  # (N_src, d): position signals and injected states
    signals: Tensor | None  # (max_steps, d), those of steps
    noise: Noise
    # (max_steps,) of what the signals add to every value, where one launch makes all of them
    value_shifts: Sequence[Tensor] = ()

    def signal(self, step: int) -> Tensor | None:
        """Return the signal of a step, `(d,)`."""
        return None if self.signals is None else self.signals[step - 1]


class LoopOutput(NamedTuple):
    """Results of the nodes that take steps."""

    out: Tensor  # (N, d) output states
    steps: Tensor  # (N,) int64
    remainder: Tensor  # (N,)
    cost: Tensor  # (N,) ponder cost of each node
    waking: WakingRecord | None = None


class FrontierRows(NamedTuple):
    """The packed rows of the frontier in one step."""

    nodes: Tensor  #: (A,) int64, ids of the active nodes
    states: Tensor  #: (A, d) after the step, and after the output norm where there is one
    weights: Tensor  #: (A,) of these states in the output, as the rule says
    probability: Tensor | None  #: (A,) of halting; None without a halting module
    #: (A,) mean square difference from the state before; with `norm="pre"` relative to the mean
    #: square of that state. Its gradient serves a penalty on change.
    change: Tensor | None = None


@dataclass(frozen=True)
class AdaptiveLoop:
    """Settings of the loop, and one step for all repetitions or one for each.

    `AdaptiveRecurrence` says what each setting means.
    """

    steps: Sequence[UniversalTransformerStep]
    halting: nn.Module | None
    halt_from: str  # which state the halting module reads
    rule: HaltingRule
    max_steps: int
    halted: str
    position_signal: Signal | None
    step_signal: Signal | None
    inject_input: bool
    noise: Sequence[InputNoise]  # none in evaluation
    quantize: Quantized | None
    state_noise: float  # standard deviation before states are quantized
    checkpoint_steps: bool

    def run(
        self,
        context: AttentionContext,
        feat: Tensor,
        positions: Tensor | None,
        num_dst: int,
        *,
        members: GraphMembers | None = None,
        checks: FiniteChecks | None = None,
        settle: bool = False,
        rows: list[FrontierRows] | None = None,
        start: Start | None = None,
    ) -> LoopOutput:
        """Repeat the step, and return the result of the first `num_dst` nodes.

        The context holds the keys and values of all nodes. `feat`, `(N_src, d)`, are their first
        states, and `positions`, `(N_src,)` or `(N_src, k)`, their positions. With
        `AsyncFiniteChecks` the loop does not wait for the number of active nodes; it needs
        attention that takes such counts. With `settle` it goes on until keys and values are those
        of step `max_steps`, for nodes to come that take more steps: a decoding cache needs it. The
        frontier of each step is added to `rows`, if given. `members` are the nodes' graphs, for a
        rule that needs them. An event-driven run begins at `start`, if given.
        """
        checks = FiniteChecks() if checks is None else checks
        feat, added = self.begin(feat, positions)
        if isinstance(self.rule, EventDriven):
            return self._run_events(self.rule, context, feat, added, members, rows, start)
        first = feat[: context.num_dst]
        state = RuleState(self.rule, first, members)
        run = _Run(self, context, feat, added, num_dst, state, checks, rows, settle)
        if self.halted == "running" or isinstance(self.rule, FixedDepth) or not first.shape[0]:
            result = run.over_everyone()
            if result.steps.shape[0] > num_dst:  # nobody was left for the last blocks
                out, steps, remainder, cost = (part[:num_dst] for part in result[:4])
                result = LoopOutput(out, steps, remainder, cost)
        else:
            result = run.over_frontier()
        return result._replace(out=self.readout(result.out))

    def _run_events(
        self,
        rule: EventDriven,
        context: AttentionContext,
        feat: Tensor,
        added: StepAdditions,
        members: GraphMembers | None,
        rows: list[FrontierRows] | None,
        start: Start | None,
    ) -> LoopOutput:
        """Compute nodes when something that they read has changed."""
        if not isinstance(context, GraphContext):
            raise ValueError("EventDriven needs a graph; a decoder cannot wake earlier tokens")
        step, track = self.step(1), torch.is_grad_enabled()
        context.owns_table = not (track or self.calls_steps)
        if start is not None:
            feat = torch.cat([start.shown, feat[len(start.shown) :]])
        frontier = WakingFrontier(
            context,
            rule,
            feat,
            None if start is None else start.frontier,
            added.encodings,
            added.noise,
            members,
            relative=step.norm == "pre",
            track=track,
        )
        for t in range(1, (rule.max_rounds or self.max_steps) + 1):
            if not frontier.num_active:
                break
            nodes = frontier.nodes
            before = frontier.refresh_keys_and_values(step, t)
            # What is wrong with the arguments of attention shows in the first round.
            with skip_checks(t > 1 and context.owns_table):
                new = self.update(before, context, added.noise, t)
            change, moved = frontier.end_round(new, t)
            if rows is not None:
                everyone = torch.arange(context.num_dst, device=feat.device)
                nodes = everyone if nodes is None else nodes
                states = self.readout(frontier.shown.index_select(0, nodes))
                weights = torch.zeros_like(change).index_fill(0, moved, 1.0)
                rows.append(FrontierRows(nodes, states, weights, None, change))
        record = frontier.record()
        wide = torch.promote_types(record.shown.dtype, torch.float32)
        zeros = record.shown.new_zeros(context.num_dst, dtype=wide)
        return LoopOutput(self.readout(record.shown), record.updates, zeros, zeros, record)

    def update(self, rows: Tensor, context: AttentionContext, noise: Noise, t: int) -> Tensor:
        """Return the new states of the frontier's rows, quantized where the recurrence does so."""
        new = self.step(t).update(rows, context)
        if self.quantize is None:
            return new
        return self.quantize.round(with_noise(noise, "quantized", new, context.frontier, t))

    @property
    def is_hooked(self) -> bool:
        """True if hooks act on a step or on its attention."""
        return any(step.is_hooked for step in self.steps)

    @property
    def is_fusable(self) -> bool:
        """True if `FusedFrontier` can end the steps."""
        noisy = any(kind.on == "every_step" for kind in self.noise)
        return type(self.rule) is ACT and self.rule.weighting == "sum" and not noisy

    @property
    def calls_steps(self) -> bool:
        """True if each step is called as a module, with the states of all nodes."""
        return self.checkpoint_steps or self.is_hooked

    def step(self, repetition: int) -> UniversalTransformerStep:
        """Return the step of repetition 1, 2, ..., `max_steps`."""
        return self.steps[0] if len(self.steps) == 1 else self.steps[repetition - 1]

    def begin(self, feat: Tensor, positions: Tensor | None) -> tuple[Tensor, StepAdditions]:
        """Return the states of nodes before the first step, and what each step adds to them."""
        encodings = signals = None
        if positions is not None and self.position_signal is not None:
            encodings = encode(self.position_signal, positions, feat)
        if self.step_signal is not None:
            signals = step_signals(self.step_signal, self.max_steps, feat)
        noise = draw_noise(self.noise, self.state_noise)
        if self.inject_input:
            encodings = add_encoding(with_noise(noise, "injected", feat), encodings)
        first = feat if self.quantize is None else self.quantize.round(feat)
        return with_noise(noise, "first", first), StepAdditions(encodings, signals, noise)

    @property
    def halted_nodes(self) -> HaltedNodes:
        """The object that writes what halted nodes show."""
        alike = self.halted == "copied" and self.step_signal is None
        return HALTED_NODES["frozen" if alike else self.halted]

    def readout(self, states: Tensor) -> Tensor:
        """Return states after the output norm, where there is one."""
        return self.step(self.max_steps).readout(states)


@dataclass
class _Run:
    """One run of the loop: all that its steps work on."""

    loop: AdaptiveLoop
    context: AttentionContext
    feat: Tensor  # (N_src, d) the first states
    added: StepAdditions
    num_dst: int  # results are those of the first nodes
    state: RuleState
    checks: FiniteChecks
    rows: list[FrontierRows] | None  # where the frontier of each step is kept, if anywhere
    settle: bool
    frontier: Frontier = field(init=False)
    outputs: HaltedOutputs = field(init=False)

    def over_frontier(self) -> LoopOutput:
        """Compute the active nodes of each step, in packed rows."""
        loop, context, end = self.loop, self.context, self._first_frontier()
        frontier = self.frontier
        if isinstance(frontier, DeviceFrontier) and isinstance(loop.halted_nodes, Copied):
            assert self.added.signals is not None
            shifts = loop.step(1).value_shift(self.added.signals)
            self.added = self.added._replace(value_shifts=() if shifts is None else shifts.unbind())
        for t in range(1, loop.max_steps + 1):
            before = self._bring_up_to_date(t)
            if context.num_dst < frontier.num_dst:  # destinations of sampled blocks become fewer
                before = before[: frontier.restrict(context.num_dst)]
                self.state.keep_first(frontier.num_active)
            context.frontier, context.count = frontier.nodes, frontier.count
            end.end_step(before, loop.update(before, context, self.added.noise, t), t)
            if not frontier.num_active:
                break
        if self.settle:
            more = loop.halted_nodes.steps_to_settle(loop.step(t), loop.max_steps)
            for later in range(t + 1, min(t + more, loop.max_steps) + 1):
                self._bring_up_to_date(later)
        out, steps, remainder, cost = end.result()
        return LoopOutput(out, steps, remainder, cost)

    def _first_frontier(self) -> _Run | FusedFrontier:
        """Begin the frontier of step 1; return what ends its steps, as rule and device allow."""
        loop, checks = self.loop, self.checks
        given = self.feat, self.added.encodings, self.context.num_dst
        if not isinstance(checks, AsyncFiniteChecks):
            self.frontier = Frontier(*given)
        elif self.feat.is_cuda and loop.is_fusable:
            # Triton decides when kernels are imported whether they are compiled or interpreted.
            from graphut.nn.fused_act import FusedFrontier

            assert isinstance(loop.rule, ACT) and loop.halting is not None
            fused = FusedFrontier(*given, checks, loop.rule, loop.halting, loop.max_steps)
            self.frontier = fused
            return fused
        else:
            self.frontier = DeviceFrontier(*given, checks)
        self.frontier.noise = self.added.noise
        self.outputs = HaltedOutputs()
        return self

    def _bring_up_to_date(self, t: int) -> Tensor:
        """Write the keys and values of a step; return the active rows with their signals."""
        self.context.begin_step(t)
        signal = self.added.signal(t)
        shift = self.added.value_shifts[t - 1] if self.added.value_shifts else None
        rows = add_encoding(self.frontier.active(), signal)
        given = StepInput(self.loop.step(t), signal, rows, shift)
        self.loop.halted_nodes.write(self.context, self.frontier, given)
        return rows

    def end_step(self, before: Tensor, after: Tensor, step: int) -> None:
        """Let nodes halt, from the states before and after a step, and go on with the others."""
        frontier, state = self.frontier, self.state
        shown = frontier.active_states() if self.rows is not None else after
        halts = self._decide(before, after, shown, step, frontier.nodes, frontier.existing_nodes)
        split = frontier.advance(after, halts)
        self.outputs.add(split, state.out, state.remainder, state.cost, step)
        if frontier.num_active:
            state.keep(split.active_rows)

    def result(self) -> list[Tensor]:
        """Return output, steps, remainder and cost of each node."""
        return self.outputs.in_order(len(self.feat), self.num_dst)

    def _decide(
        self,
        before: Tensor,
        after: Tensor,
        shown: Tensor,
        step: int,
        nodes: Tensor | None,
        existing_nodes: Tensor | None,
        active: Tensor | None = None,
    ) -> Tensor:
        """Return which rows, of `nodes` or of all, halt; those outside `active` have halted.

        `shown` are the states of the rows before the step, without signals.
        """
        loop, probability = self.loop, None
        if loop.halting is not None and (loop.rule.uses_probability or self.rows is not None):
            seen = before if loop.halt_from == "input" else after
            probability = loop.halting(seen, existing_nodes, step)
            check_probability_shape(probability, len(after))
            self.checks.check_probability(probability, nodes, step)
        is_last = step == loop.max_steps
        halts = self.state.update(StepRows(before, after, probability, step, is_last), active)
        if self.rows is not None:
            nodes = torch.arange(len(after), device=after.device) if nodes is None else nodes
            change = squared_change(after, shown, relative=loop.step(step).norm == "pre")
            own = FrontierRows(nodes, loop.readout(after), self.state.weight, probability, change)
            if active is not None:
                own = FrontierRows._make(x if x is None else x[active] for x in own)
            self.rows.append(own)
        return halts

    def over_everyone(self) -> LoopOutput:
        """Compute all nodes at every step; a mask keeps the outputs of those that have halted."""
        loop, context, state, feat = self.loop, self.context, self.state, self.feat
        states, all_run = feat, isinstance(loop.rule, FixedDepth)
        active = torch.ones(context.num_dst, dtype=torch.bool, device=feat.device)
        steps = torch.zeros_like(active, dtype=torch.int64)
        remainder, cost = feat.new_zeros(
            2, context.num_dst, dtype=torch.promote_types(feat.dtype, torch.float32)
        )
        for t in range(1, loop.max_steps + 1):
            context.begin_step(t)
            last = states
            before, states = self._step_of_everyone(states, t)
            if context.num_dst < active.shape[0]:  # destinations of sampled blocks become fewer
                active, steps, remainder, cost = (
                    x[: context.num_dst] for x in (active, steps, remainder, cost)
                )
                state.keep_first(context.num_dst)
            if all_run and self.rows is None:
                continue
            steps = steps + active
            nodes = None
            if len(states) < len(feat):
                nodes = torch.arange(len(states), device=feat.device)
            last = last[: len(states)]
            halts = self._decide(before, states, last, t, nodes, nodes, None if all_run else active)
            if all_run:
                continue
            remainder = torch.where(halts, state.remainder, remainder)
            cost = torch.where(halts, state.cost, cost)
            active = active & ~halts
            if not (self.settle or has_no_numbers() or self.checks.bound(active.sum())):
                break
        if all_run:
            return LoopOutput(states, torch.full_like(steps, loop.max_steps), remainder, cost)
        return LoopOutput(state.out, steps, remainder, cost)

    def _step_of_everyone(self, states: Tensor, t: int) -> tuple[Tensor, Tensor]:
        """Return the states before and after a step.

        Nodes that are only sources look as if they had halted before the first step.
        """
        context, halted, moving = self.context, self.loop.halted, states.shape[0]
        step, others = self.loop.step(t), slice(moving, context.num_src)
        shown = self._shown(states, slice(moving), t, t)
        if moving < context.num_src:
            signal = 1 if halted in ("frozen", "stale") else t
            noise = t if halted == "running" else 1
            shown = torch.cat([shown, self._shown(self.feat[others], others, signal, noise)])
        context.write(None, step.project(shown))
        before = shown[: context.num_dst]
        return before, self.loop.update(before, context, self.added.noise, t)

    def _shown(self, states: Tensor, nodes: slice, signal: int, noise: int) -> Tensor:
        """Return the states of `nodes` with the signal and the noise of these steps."""
        added = self.added
        encodings = None if added.encodings is None else added.encodings[nodes]
        rows, ids = add_encoding(states, encodings), None
        if added.noise and nodes.start:
            ids = torch.arange(nodes.start, nodes.stop, device=states.device)
        rows = with_noise(added.noise, "every_step", rows, ids, noise)
        return add_encoding(rows, added.signal(signal))
