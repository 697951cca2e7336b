"""The frontier of nodes that halt for good, for each value of `halted`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from graphut.attention.checks import is_tracing
from graphut.nn.loop_state import LoopOutput, LoopState, add_encoding
from graphut.nn.noise import Noise, with_noise
from graphut.nn.rules.base import FixedDepth


class HaltingFrontier:
    """The active nodes, in packed rows; a node that halts never computes again."""

    # (max_steps, d) shifts of all values by each step signal, if computed before the loop
    value_shifts: Sequence[Tensor] | None = None

    def __init__(self, state: LoopState, rows: ActiveRows | None = None) -> None:
        if rows is None:
            rows = ActiveRows(state.feat, state.encodings, state.context.num_dst, state.noise)
        self.state, self.rows = state, rows
        self.halted = state.settings.halted
        if self.halted == "copied" and state.signals is None:
            self.halted = "frozen"  # the same without a step signal
        # For each step: nodes that halted, their steps, output, remainder and cost.
        self._finished: list[tuple[Tensor, ...]] = []

    @property
    def num_active(self) -> int:
        """Number of nodes that compute in the next step, or an upper bound."""
        return self.rows.num_active

    def refresh_keys_and_values(self, t: int) -> Tensor:
        """Write the keys and values that changed; return the active rows with their signals."""
        state, rows, context = self.state, self.rows, self.state.context
        context.begin_step(t)
        active = add_encoding(rows.active(), state.signal(t))
        self._write(active, t)
        if context.num_dst < rows.num_dst:  # each sampled block has fewer destinations
            active = active[: rows.truncate(context.num_dst)]
            state.rule_state.keep_first(rows.num_active)
        context.frontier = rows.nodes
        return active

    def _write(self, active: Tensor, t: int) -> None:
        """Write the keys and values that changed since the last step.

        A node is written while it is active. Except with "stale" it is written once more after it
        has halted, because its keys and values are older than its final state.
        """
        context, rows = self.state.context, self.rows
        step, signal = self.state.settings.step(t), self.state.signal(t)
        nodes, shown = rows.last_nodes, rows.last
        if self.halted == "copied" and signal is not None:
            # The signal moves the values of all halted nodes by one vector. If the projection is
            # linear, this vector is added after attention, and halted nodes are not projected.
            context.value_shift = (
                self.value_shifts[t - 1] if self.value_shifts else step.value_shift(signal)
            )
            if context.value_shift is None:
                context.write(None, step.project(rows.all_states(context.num_src) + signal))
            else:
                context.write(nodes, step.project(shown()))
        elif self.halted == "stale" and rows.step > 1:
            context.write(rows.nodes, step.project(active))
        else:
            context.write(nodes, step.project(add_encoding(shown(), signal)))

    def end_step(self, before: Tensor, after: Tensor, t: int) -> None:
        """Ask the rule which rows halt, and store their outputs."""
        state, rows, decided = self.state, self.rows, self.state.rule_state
        shown = None if state.rows is None else rows.active_states()
        halts = state.decide(before, after, t, rows.nodes, shown)
        split = rows.advance(after, halts)
        if split.halting_nodes is not None:
            columns = [decided.out, decided.remainder, decided.cost]
            if split.halting_rows is not None:
                columns = [column.index_select(0, split.halting_rows) for column in columns]
            steps = torch.full_like(split.halting_nodes, t)
            self._finished.append((split.halting_nodes, steps, *columns))
        if rows.num_active:
            decided.keep(split.active_rows)
        elif state.fill_cache:
            self._fill_cache(t)

    def _fill_cache(self, t: int) -> None:
        """Write the keys and values of halted nodes for the steps after the loop."""
        max_steps, more = self.state.settings.max_steps, 1
        if self.halted == "stale":
            more = 0
        elif self.halted == "copied" and not self.state.settings.step(t).has_linear_projection:
            more = max_steps
        for later in range(t + 1, min(t + more, max_steps) + 1):
            self.refresh_keys_and_values(later)

    def result(self) -> LoopOutput:
        """Return the results of all nodes, in node order."""
        nodes, *columns = map(torch.cat, zip(*self._finished, strict=True))
        row_of = nodes.new_empty(len(self.state.feat) + 1)
        row_of.index_copy_(0, nodes, torch.arange(len(nodes), device=nodes.device))
        rows = row_of[: self.state.num_dst]
        steps, out, remainder, cost = (column.index_select(0, rows) for column in columns)
        return LoopOutput(out, steps, remainder, cost)


class HaltSplit(NamedTuple):
    """The rows of a frontier that halt in a step, and the rows that stay active."""

    halting_nodes: Tensor | None  # (B,) ids of the halting nodes; None if no node halts
    halting_rows: Tensor | None  # (B,) their rows in the frontier; None for all rows in order
    active_rows: Tensor | None  # rows that stay active; None for all


class ActiveRows:
    """The states of the nodes that were active in the last step, and which of them still are.

    Rows of nodes that have just halted are kept for one more step, because their final states are
    projected to keys and values once.

    The arguments are the first states of all nodes and their encodings, `(N_src, d)`, and the
    number of nodes that compute. The other nodes count as halted before the first step.
    """

    def __init__(
        self, feat: Tensor, encodings: Tensor | None, num_dst: int, noise: Noise | None = None
    ) -> None:
        self.nodes: Tensor | None = None  # ids of the active nodes; None for all
        self.last_nodes: Tensor | None = None  # ids of the nodes that were active before
        self.num_dst = self.num_active = num_dst  # number of active nodes
        self.step = 1  # the next step
        self._noise, self._encodings = noise or {}, encodings
        self._rows = self._table = feat
        self._active_rows: Tensor | None = None
        self._last: Tensor | None = None
        if num_dst < feat.shape[0]:
            self.nodes = self._active_rows = torch.arange(num_dst, device=feat.device)

    def last(self) -> Tensor:
        """Return states, encodings and noise of the frontier before the present one."""
        if self._last is None:
            rows = add_encoding(self._rows, self._encodings)
            self._last = with_noise(self._noise, "every_step", rows, self.last_nodes, self.step)
        return self._last

    def active(self) -> Tensor:
        """Return states, encodings and noise of the present frontier."""
        return self._select(self.last())

    def active_states(self) -> Tensor:
        """Return the states of the present frontier, without encodings and noise."""
        return self._select(self._rows)

    def _select(self, rows: Tensor) -> Tensor:
        return rows if self._active_rows is None else rows.index_select(0, self._active_rows)

    def all_states(self, num_src: int) -> Tensor:
        """Return states, encodings and noise of the first `num_src` nodes.

        It must be called in every step, because it updates a table of all nodes.
        """
        if self.last_nodes is None:
            self._table = self.last()
        else:
            self._table = self._table[:num_src].index_copy(0, self.last_nodes, self.last())
        return self._table

    def truncate(self, num_dst: int) -> int:
        """Drop active nodes from `num_dst` on, as a sampled block does; return how many stay."""
        every_row = torch.arange(len(self._rows), device=self._rows.device)
        nodes = every_row if self.nodes is None else self.nodes
        rows = every_row if self._active_rows is None else self._active_rows
        self.num_active = int((nodes < num_dst).sum())
        self.nodes, self._active_rows = nodes[: self.num_active], rows[: self.num_active]
        self.num_dst = num_dst
        return self.num_active

    def advance(self, states: Tensor, halts: Tensor) -> HaltSplit:
        """Store the new states of the frontier's rows, and remove the rows that halt."""
        halting, active = halts.nonzero()[:, 0], (~halts).nonzero()[:, 0]
        self.num_active = len(active)
        if not len(halting):
            self._advance(states, None)
            return HaltSplit(None, None, None)
        nodes = halting if self.nodes is None else self.nodes[halting]
        self._advance(states, active)
        return HaltSplit(nodes, halting, active)

    def _advance(self, states: Tensor, active_rows: Tensor | None) -> None:
        if self._encodings is not None and self._active_rows is not None:
            self._encodings = self._encodings.index_select(0, self._active_rows)
        self._rows, self._active_rows, self._last = states, active_rows, None
        self.last_nodes, self.step = self.nodes, self.step + 1
        if active_rows is not None:
            self.nodes = active_rows if self.nodes is None else self.nodes[active_rows]


class MaskedFrontier:
    """All nodes compute in every step; a mask keeps the outputs of nodes that have halted.

    Sizes are read from `shape`, because `len` would make them constants of an exported program.
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
        if size < self.active.shape[0]:  # each sampled block has fewer destinations
            self._truncate(size)
            state.rule_state.keep_first(size)
        if self.runs_all and state.rows is None:
            return
        self.steps = self.steps + self.active
        nodes = None if size == state.feat.shape[0] else torch.arange(size, device=after.device)
        active = None if self.runs_all else self.active
        halts = state.decide(before, after, t, nodes, shown[:size], active)
        if self.runs_all:
            return
        self.remainder = torch.where(halts, state.rule_state.remainder, self.remainder)
        self.cost = torch.where(halts, state.rule_state.cost, self.cost)
        self.active = self.active & ~halts
        if not (state.fill_cache or is_tracing()):
            self.num_active = state.checks.bound(self.active.sum())

    def _truncate(self, size: int) -> None:
        self.active, self.steps = self.active[:size], self.steps[:size]
        self.remainder, self.cost = self.remainder[:size], self.cost[:size]

    def result(self) -> LoopOutput:
        """Return the results of all nodes."""
        state, size = self.state, self.state.num_dst
        out = self.states if self.runs_all else state.rule_state.out
        if self.steps.shape[0] > size:  # the blocks of later steps may have fewer destinations
            out = out[:size]
            self._truncate(size)
        if self.runs_all:
            self.steps = torch.full_like(self.steps, state.settings.max_steps)
        return LoopOutput(out, self.steps, self.remainder, self.cost)
