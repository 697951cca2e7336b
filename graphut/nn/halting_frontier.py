"""The frontier (the set of active nodes) under rules whose nodes halt for good."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphut.nn.call_state import LoopOutput, LoopState, add_encoding
from graphut.nn.noise import Noise, with_noise


class HaltingFrontier:
    """The set of active nodes of a recurrence; a node that halts never computes again."""

    def __init__(self, state: LoopState) -> None:
        self.state, num_dst = state, state.context.num_dst
        self.rows = ActiveRows(state.feat, state.encodings, num_dst, state.noise)
        self.halted = state.plan.halted
        # For each step: nodes that halted (None: all), their steps, output, remainder and cost.
        self._finished: list[tuple[Any, ...]] = []

    @property
    def num_active(self) -> int:
        """Number of nodes that compute in the next step, or an upper bound of this number."""
        return self.rows.num_active

    def refresh_keys_and_values(self, t: int) -> Tensor:
        """Update the key/value table; return the input of step `t` for active nodes, `(A, d)`."""
        state, rows, context = self.state, self.rows, self.state.context
        context.begin_step(t)
        signal, active = None, rows.active()
        if state.signal_of is not None:
            signal = state.signal_of[t - 1]
            active = active + signal
        if rows.nodes is None and not (state.fill_cache or state.exchange):
            # Every row of the table is new, and the rows of this step are overwritten in the next.
            context.value_shift = None
            if self.halted == "copied" and not state.plan.has_linear_projection:
                rows.all_states(context.num_src, None, rows.last())
            context.project(state.step(t), None, active)
        else:
            self._write(active, signal, t)
        if context.num_dst < rows.num_dst:  # each sampled block has fewer destinations
            active = active[: rows.truncate(context.num_dst)]
            state.rule_state.keep_first(rows.num_active)
        context.frontier = rows.nodes
        return active

    def _write(self, active: Tensor, signal: Tensor | None, t: int) -> None:
        """Project and store the rows whose keys or values changed since the last step.

        These are the rows of active nodes, and of nodes that just halted: their stored rows are
        older than their final state. With `halted="stale"` they keep the stored rows. If the step
        signal changes the rows of halted nodes in different ways, all rows are stored again.
        """
        state, context, rows = self.state, self.state.context, self.rows
        step = state.step(t)
        if self.halted == "stale" and rows.step > 1:
            nodes, shown = state.with_halo(rows.nodes, active)
        else:
            nodes, shown = state.with_halo(rows.last_nodes, rows.last())
        if self.halted == "copied" and signal is not None:
            if not state.plan.has_linear_projection:
                table = rows.all_states(context.num_src, nodes, shown)
                context.project(step, None, table + signal)
                return
            # The signal moves the values of all halted nodes by one vector. It is added after
            # attention, and halted nodes are not projected.
            context.value_shift = step.value_shift(signal)
        elif self.halted != "stale" or rows.step == 1:
            shown = add_encoding(shown, signal)
        context.project(step, nodes, shown)

    def end_step(self, before: Tensor, after: Tensor, t: int) -> None:
        """Store the states `after` step `t`, and the outputs of the nodes that the rule halts."""
        state, rows, decided = self.state, self.rows, self.state.rule_state
        shown = None if state.rows is None else rows.active_states()
        halts = state.decide(before, after, t, rows.nodes, shown)
        split = rows.advance(after, halts)
        if split.num_halting:
            columns = [decided.out, decided.remainder, decided.cost]
            if split.halting_rows is not None:
                columns = [column.index_select(0, split.halting_rows) for column in columns]
            steps = torch.full(columns[0].shape[:1], t, device=after.device)
            self._finished.append((split.halting_nodes, steps, *columns))
        if rows.num_active or state.exchange is not None:
            decided.keep(split.active_rows)
        elif state.fill_cache:
            self._fill_cache(t)

    def _fill_cache(self, t: int) -> None:
        """Store keys and values for steps after `t`, the last one, for later tokens to read."""
        max_steps, more = self.state.plan.max_steps, 1
        if self.halted == "stale":
            more = 0
        elif self.halted == "copied" and not self.state.plan.has_linear_projection:
            more = max_steps
        for later in range(t + 1, min(t + more, max_steps) + 1):
            self.refresh_keys_and_values(later)

    def result(self) -> LoopOutput:
        """Return the output, number of steps, ACT remainder and ponder cost of each node."""
        num_dst = self.state.num_dst
        if len(self._finished) == 1 and self._finished[0][0] is None:  # all nodes halted together
            steps, out, remainder, cost = self._finished[0][1:]
            return LoopOutput(out, steps, remainder, cost)
        nodes, *columns = map(torch.cat, zip(*self._finished, strict=True))
        row_of = nodes.new_empty(len(self.state.feat) + 1)
        row_of.index_copy_(0, nodes, torch.arange(len(nodes), device=nodes.device))
        rows = row_of[:num_dst]
        steps, out, remainder, cost = (column.index_select(0, rows) for column in columns)
        return LoopOutput(out, steps, remainder, cost)


class HaltSplit(NamedTuple):
    """The active nodes of a step, split into nodes that halt in it and nodes that stay active."""

    num_halting: int  # or an upper bound
    halting_nodes: Tensor | None  # (B,) ids of the halting nodes; None for all nodes in order
    halting_rows: Tensor | None  # (B,) their rows in the frontier; None for all rows in order
    active_rows: Tensor | None  # rows that stay active; None for all


class ActiveRows:
    """States of the nodes that were active in the last step, and ids of the nodes still active.

    The state of a node that has just halted is stored for one more step, because it must be
    projected to keys and values once. Nodes with ids of `num_dst` or more count as halted before
    the first step.
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
        """Return states plus encodings and noise of the nodes that were active in the last step."""
        if self._last is None:
            rows = self._rows if self._encodings is None else self._rows + self._encodings
            if self._noise:
                rows = with_noise(self._noise, "every_step", rows, self.last_nodes, self.step)
            self._last = rows
        return self._last

    def active(self) -> Tensor:
        """Return the states of the active nodes, `(A, d)`, plus encodings and noise."""
        rows = self.last()
        return rows if self._active_rows is None else rows.index_select(0, self._active_rows)

    def active_states(self) -> Tensor:
        """Return the states of the active nodes, `(A, d)`, without encodings and noise."""
        rows = self._rows
        return rows if self._active_rows is None else rows.index_select(0, self._active_rows)

    def all_states(self, num_src: int, nodes: Tensor | None, rows: Tensor) -> Tensor:
        """Return states plus encodings and noise of the first `num_src` nodes, active or halted.

        `rows` are the new values of `nodes` (None: of all nodes); values of other nodes are kept
        from the call of the step before.
        """
        self._table = rows if nodes is None else self._table[:num_src].index_copy(0, nodes, rows)
        return self._table

    def truncate(self, num_dst: int) -> int:
        """Drop active nodes with ids of `num_dst` or more; return the number of remaining nodes."""
        every_row = torch.arange(len(self._rows), device=self._rows.device)
        nodes = every_row if self.nodes is None else self.nodes
        rows = every_row if self._active_rows is None else self._active_rows
        self.num_active = int((nodes < num_dst).sum())
        self.nodes, self._active_rows = nodes[: self.num_active], rows[: self.num_active]
        self.num_dst = num_dst
        return self.num_active

    def advance(self, states: Tensor, halts: Tensor) -> HaltSplit:
        """Store the new states, `(A, d)`, and split the nodes by the mask `halts`, `(A,)`."""
        num_halting = int(torch.count_nonzero(halts))
        self.num_active -= num_halting
        if not num_halting:
            self._advance(states, None)
            return HaltSplit(0, None, None, None)
        if not self.num_active:
            nodes, no_rows = self.nodes, halts.new_empty(0, dtype=torch.int64)
            self._advance(states, no_rows)
            return HaltSplit(num_halting, nodes, None, no_rows)
        halting, active = halts.nonzero()[:, 0], (~halts).nonzero()[:, 0]
        nodes = halting if self.nodes is None else self.nodes.index_select(0, halting)
        self._advance(states, active)
        return HaltSplit(num_halting, nodes, halting, active)

    def _advance(self, states: Tensor, active_rows: Tensor | None) -> None:
        if self._encodings is not None and self._active_rows is not None:
            self._encodings = self._encodings.index_select(0, self._active_rows)
        self._rows, self._active_rows, self._last = states, active_rows, None
        self.last_nodes, self.step = self.nodes, self.step + 1
        if active_rows is not None:
            self.nodes = active_rows
            if self.last_nodes is not None:
                self.nodes = self.last_nodes.index_select(0, active_rows)
