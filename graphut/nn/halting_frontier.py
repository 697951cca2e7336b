"""The frontier (the set of active nodes) under rules whose nodes halt for good."""

from typing import Any

import torch
from torch import Tensor

from graphut.nn.call_state import LoopOutput, LoopState, add_encoding
from graphut.nn.noise import with_noise


class HaltingFrontier:
    """The set of active nodes of a recurrence; a node that halts never computes again.

    The state of a node that has just halted is stored for one more step, because it must be
    projected to keys and values once. Sources that are not destinations count as halted before the
    first step.
    """

    def __init__(self, state: LoopState) -> None:
        self.state, self.halted, feat = state, state.plan.halted, state.feat
        self.num_active = self.num_dst = state.context.num_dst
        self.step = 1  # the next step
        self.nodes: Tensor | None = None  # (A,) ids of the active nodes; None for all
        self._last_nodes: Tensor | None = None  # ids of the nodes that were active in the last step
        # States of these nodes, what is added to them in each step, and the rows of `nodes` there.
        self._rows, self._encodings = feat, state.encodings
        self._active_rows: Tensor | None = None  # None for all
        if self.num_dst < feat.shape[0]:
            self.nodes = self._active_rows = torch.arange(self.num_dst, device=feat.device)
        self._table = feat  # states of all nodes with encodings, if all are projected in each step
        # For each step: nodes that halted (None: all), their steps, output, remainder and cost.
        self._finished: list[tuple[Any, ...]] = []

    def refresh_keys_and_values(self, t: int) -> Tensor:
        """Update the key/value table; return the input of step `t` for active nodes, `(A, d)`."""
        state, context = self.state, self.state.context
        context.begin_step(t)
        last = self._rows if self._encodings is None else self._rows + self._encodings
        if state.noise:
            last = with_noise(state.noise, "every_step", last, self._last_nodes, self.step)
        signal, active = None, self._select(last)
        if state.signal_of is not None:
            signal = state.signal_of[t - 1]
            active = active + signal
        if self.nodes is None and not (state.fill_cache or state.exchange):
            # Every row of the table is new, and the rows of this step are overwritten in the next.
            context.value_shift = None
            if self.halted == "copied" and not state.plan.has_linear_projection:
                self._table = last
            context.project(state.step(t), None, active)
        else:
            self._write(last, active, signal, t)
        if context.num_dst < self.num_dst:  # each sampled block has fewer destinations
            self._truncate(context.num_dst)
            active = active[: self.num_active]
            state.rule_state.keep_first(self.num_active)
        context.frontier = self.nodes
        return active

    def _select(self, rows: Tensor) -> Tensor:
        """Return the rows of active nodes, given those of the nodes of the last step."""
        return rows if self._active_rows is None else rows.index_select(0, self._active_rows)

    def _write(self, last: Tensor, active: Tensor, signal: Tensor | None, t: int) -> None:
        """Project and store the rows whose keys or values changed since the last step.

        These are the rows of active nodes, and of nodes that just halted: their stored rows are
        older than their final state. With `halted="stale"` they keep the stored rows. If the step
        signal changes the rows of halted nodes in different ways, all rows are stored again.
        """
        state, context = self.state, self.state.context
        step = state.step(t)
        if self.halted == "stale" and self.step > 1:
            nodes, shown = state.with_halo(self.nodes, active)
        else:
            nodes, shown = state.with_halo(self._last_nodes, last)
        if self.halted == "copied" and signal is not None:
            if not state.plan.has_linear_projection:
                if nodes is not None:
                    shown = self._table[: context.num_src].index_copy(0, nodes, shown)
                self._table = shown
                context.project(step, None, shown + signal)
                return
            # The signal moves the values of all halted nodes by one vector. It is added after
            # attention, and halted nodes are not projected.
            context.value_shift = step.value_shift(signal)
        elif self.halted != "stale" or self.step == 1:
            shown = add_encoding(shown, signal)
        context.project(step, nodes, shown)

    def _truncate(self, num_dst: int) -> None:
        """Drop active nodes with ids of `num_dst` or more."""
        every_row = torch.arange(len(self._rows), device=self._rows.device)
        nodes = every_row if self.nodes is None else self.nodes
        rows = every_row if self._active_rows is None else self._active_rows
        self.num_active, self.num_dst = int((nodes < num_dst).sum()), num_dst
        self.nodes, self._active_rows = nodes[: self.num_active], rows[: self.num_active]

    def end_step(self, before: Tensor, after: Tensor, t: int) -> None:
        """Store the states `after` step `t`, and the outputs of the nodes that the rule halts."""
        state, decided, nodes = self.state, self.state.rule_state, self.nodes
        shown = None if state.rows is None else self._select(self._rows)
        halts = state.decide(before, after, t, nodes, shown)
        num_halting = int(torch.count_nonzero(halts))
        self.num_active -= num_halting
        active_rows = None  # rows that stay active; None for all
        if num_halting:
            columns = [decided.out, decided.remainder, decided.cost]
            if self.num_active:
                halting, active_rows = halts.nonzero()[:, 0], (~halts).nonzero()[:, 0]
                nodes = halting if nodes is None else nodes.index_select(0, halting)
                columns = [column.index_select(0, halting) for column in columns]
            else:
                active_rows = halts.new_empty(0, dtype=torch.int64)
            steps = torch.full(columns[0].shape[:1], t, device=after.device)
            self._finished.append((nodes, steps, *columns))
        self._advance(after, active_rows)
        if self.num_active or state.exchange is not None:
            decided.keep(active_rows)
        elif state.fill_cache:
            self._fill_cache(t)

    def _advance(self, states: Tensor, active_rows: Tensor | None) -> None:
        if self._encodings is not None and self._active_rows is not None:
            self._encodings = self._encodings.index_select(0, self._active_rows)
        self._rows, self._active_rows = states, active_rows
        self._last_nodes, self.step = self.nodes, self.step + 1
        if active_rows is not None:
            self.nodes = active_rows
            if self._last_nodes is not None:
                self.nodes = self._last_nodes.index_select(0, active_rows)

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
        if len(self._finished) == 1 and self._finished[0][0] is None:  # all nodes halted together
            # The blocks of later steps may have fewer destinations.
            size = self.state.num_dst
            steps, out, remainder, cost = (column[:size] for column in self._finished[0][1:])
            return LoopOutput(out, steps, remainder, cost)
        nodes, *columns = map(torch.cat, zip(*self._finished, strict=True))
        row_of = nodes.new_empty(len(self.state.feat))
        row_of.index_copy_(0, nodes, torch.arange(len(nodes), device=nodes.device))
        rows = row_of[: self.state.num_dst]
        steps, out, remainder, cost = (column.index_select(0, rows) for column in columns)
        return LoopOutput(out, steps, remainder, cost)
