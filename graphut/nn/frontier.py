"""The frontier of nodes that halt for good, and the same computation with masks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphut.attention.checks import is_tracing
from graphut.nn.halted import HALTED_NODES, HaltedNodes, StepInput
from graphut.nn.loop_state import LoopOutput, LoopState
from graphut.nn.noise import with_noise
from graphut.nn.packed_rows import ActiveRows, HaltSplit, add_encoding
from graphut.nn.rules.base import FixedDepth


class HaltingFrontier:
    """The active nodes, in packed rows; a node that halts never computes again."""

    # (max_steps, d) of what each step signal adds to every value, if computed before the loop
    value_shifts: Sequence[Tensor] | None = None

    def __init__(self, state: LoopState, rows: ActiveRows | None = None) -> None:
        if rows is None:
            given = state.feat, state.encodings, state.context.num_dst
            rows = ActiveRows(*given, state.noise)
        self.state, self.rows, self.outputs = state, rows, HaltedOutputs()

    @property
    def num_active(self) -> int:
        """Number of nodes that compute in the next step, or an upper bound."""
        return self.rows.num_active

    @property
    def halted_nodes(self) -> HaltedNodes:
        """What halted nodes show."""
        settings = self.state.settings
        no_signal = settings.halted == "copied" and settings.step_signal is None
        return HALTED_NODES["frozen" if no_signal else settings.halted]

    def refresh_keys_and_values(self, t: int) -> Tensor:
        """Write changed keys and values; return the active rows with their signals."""
        state, rows = self.state, self.rows
        context, signal = state.context, state.signal(t)
        context.begin_step(t)
        active = add_encoding(rows.active(), signal)
        shift = None if self.value_shifts is None else self.value_shifts[t - 1]
        given = StepInput(state.settings.step(t), signal, active, shift)
        self.halted_nodes.write(context, rows, given)
        if context.num_dst < rows.num_dst:  # sampled blocks have fewer destinations at each step
            active = active[: rows.truncate(context.num_dst)]
            state.rule_state.keep_first(rows.num_active)
        context.frontier, context.count = rows.nodes, rows.count
        return active

    def end_step(self, before: Tensor, after: Tensor, t: int) -> None:
        """Ask the rule which rows halt, and store their outputs."""
        state, rows, decided = self.state, self.rows, self.state.rule_state
        shown = None if state.rows is None else rows.active_states()
        existing = rows.existing_nodes
        halts = state.decide(before, after, t, rows.nodes, existing_nodes=existing, shown=shown)
        split = rows.advance(after, halts)
        self.outputs.add(split, decided.out, decided.remainder, decided.cost, t)
        if rows.num_active:
            decided.keep(split.active_rows)
        elif state.fill_cache:
            self._fill_cache(t)

    def _fill_cache(self, t: int) -> None:
        """Write what halted nodes show in the steps after the last one."""
        settings = self.state.settings
        more = self.halted_nodes.extra_writes(settings.step(t), settings.max_steps)
        for later in range(t + 1, min(t + more, settings.max_steps) + 1):
            self.refresh_keys_and_values(later)

    def result(self) -> LoopOutput:
        """Return the results of all nodes."""
        out, steps, remainder, cost = self.outputs.in_order(
            len(self.state.feat), self.state.num_dst
        )
        return LoopOutput(out, steps, remainder, cost)


class HaltedOutputs:
    """Outputs of the nodes that have halted, step by step; put into node order at the end."""

    def __init__(self) -> None:
        # For each step: nodes, and what `in_order` returns.
        self._parts: list[tuple[Tensor, ...]] = []

    def add(
        self, split: HaltSplit, out: Tensor, remainder: Tensor, cost: Tensor, step: int
    ) -> None:
        """Keep the outputs of the rows that halt in this step."""
        nodes, rows = split.halting_nodes, split.halting_rows
        if nodes is None:
            return
        if rows is not None:
            out, remainder, cost = out.index_select(0, rows), remainder[rows], cost[rows]
        self._parts.append((nodes, out, torch.full_like(nodes, step), remainder, cost))

    def in_order(self, num_src: int, num_dst: int) -> list[Tensor]:
        """Return output, steps, remainder and cost of the first `num_dst` nodes."""
        nodes, *columns = map(torch.cat, zip(*self._parts, strict=True))
        row_of = nodes.new_empty(num_src + 1)
        row_of.index_copy_(0, nodes, torch.arange(len(nodes), device=nodes.device))
        return [column.index_select(0, row_of[:num_dst]) for column in columns]


class MaskedFrontier:
    """All nodes, at every step; a mask keeps the outputs of nodes that have halted.

    It serves models without halting, and `halted="running"`. Sizes are read from `shape`, because
    `len` would make them constants of an exported program.
    """

    def __init__(self, state: LoopState) -> None:
        self.state, self.states, self.num_active = state, state.feat, 1
        self.runs_all = isinstance(state.settings.rule, FixedDepth)
        feat, size = state.feat, state.context.num_dst
        self.active = torch.ones(size, dtype=torch.bool, device=feat.device)
        self.steps = torch.zeros_like(self.active, dtype=torch.int64)
        wide = torch.promote_types(feat.dtype, torch.float32)
        self.remainder, self.cost = feat.new_zeros(2, size, dtype=wide)

    def refresh_keys_and_values(self, t: int) -> Tensor:
        """Write the keys and values of all nodes; return the destinations with their signals.

        Nodes that are only sources show what nodes show that halted before the first step.
        """
        state, context, moving = self.state, self.state.context, self.states.shape[0]
        context.begin_step(t)
        shown = self._with_signals(self.states, 0, t, t)
        if moving < context.num_src:
            halted, others = state.settings.halted, state.feat[moving : context.num_src]
            signal = 1 if halted in ("frozen", "stale") else t
            noise = t if halted == "running" else 1
            shown = torch.cat([shown, self._with_signals(others, moving, signal, noise)])
        context.write(None, state.settings.step(t).project(shown))
        return shown[: context.num_dst]

    def _with_signals(self, states: Tensor, first: int, signal: int, noise: int) -> Tensor:
        """Add encodings, and the signal and the noise of these steps, to nodes from `first` on."""
        state, stop = self.state, first + states.shape[0]
        encodings = None if state.encodings is None else state.encodings[first:stop]
        rows, ids = add_encoding(states, encodings), None
        if state.noise and first:
            ids = torch.arange(first, stop, device=states.device)
        rows = with_noise(state.noise, "every_step", rows, ids, noise)
        return add_encoding(rows, state.signal(signal))

    def end_step(self, before: Tensor, after: Tensor, t: int) -> None:
        """Store the new states, and the outputs of nodes that halt."""
        state, size, shown = self.state, after.shape[0], self.states
        self.states = after
        if size < self.active.shape[0]:  # sampled blocks have fewer destinations at each step
            self.active, self.steps = self.active[:size], self.steps[:size]
            self.remainder, self.cost = self.remainder[:size], self.cost[:size]
            state.rule_state.keep_first(size)
        if self.runs_all and state.rows is None:
            return
        self.steps = self.steps + self.active
        nodes = None if size == state.feat.shape[0] else torch.arange(size, device=after.device)
        active = None if self.runs_all else self.active
        given = {"existing_nodes": nodes, "shown": shown[:size], "active": active}
        halts = state.decide(before, after, t, nodes, **given)
        if self.runs_all:
            return
        self.remainder = torch.where(halts, state.rule_state.remainder, self.remainder)
        self.cost = torch.where(halts, state.rule_state.cost, self.cost)
        self.active = self.active & ~halts
        if not (state.fill_cache or is_tracing()):
            self.num_active = state.checks.bound(self.active.sum())

    def result(self) -> LoopOutput:
        """Return the results of all nodes."""
        state, steps, size = self.state, self.steps, self.state.num_dst
        out = self.states if self.runs_all else state.rule_state.out
        if self.runs_all:
            steps = torch.full_like(steps, state.settings.max_steps)
        found = out, steps, self.remainder, self.cost
        if (
            steps.shape[0] > size
        ):  # sampled blocks may end early, when more than the results are left
            found = out[:size], steps[:size], self.remainder[:size], self.cost[:size]
        return LoopOutput(*found)
