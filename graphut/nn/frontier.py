"""The frontier: the packed rows of the nodes that are still active.

`Frontier` is for a host that knows how many nodes are active, `DeviceFrontier` for one that does
not wait to know it. Nothing else in the recurrence differs between the two.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphut.nn.context import existing
from graphut.nn.finite_checks import AsyncFiniteChecks
from graphut.nn.noise import Noise, with_noise


class Split(NamedTuple):
    """The rows of a frontier that halt in a step, and those that go on."""

    halting_nodes: Tensor | None  # (B,) ids of the nodes that halt; None if no node does
    halting_rows: Tensor | None  # (B,) their rows in the frontier; None for all its rows in order
    active_rows: Tensor | None  # rows that go on; None for all


class Frontier:
    """Packed rows of the nodes that were active in the last step, and which of them still are.

    The last frontier's rows are kept for one step more: a node that has just halted is projected
    once again, from its final state.

    It begins with the first states of all nodes, `(N_src, d)`, and with what is added to them at
    every step: encodings, and noise. Only nodes below `num_dst` take steps; the others are as if
    they had halted before.
    """

    count: Tensor | None = None  # the device has no count of its own

    def __init__(self, feat: Tensor, encodings: Tensor | None, num_dst: int) -> None:
        self.nodes: Tensor | None = None  # ids of the active nodes; None for all
        self.last_nodes: Tensor | None = None  # ids of those that were active before
        self.num_dst = self.num_active = num_dst  # how many are active: 0 when all have halted
        self.step = 1  # that comes next
        self.noise: Noise = {}
        self._encodings = encodings
        self._rows = self._table = feat
        self._active_rows: Tensor | None = None
        self._last: Tensor | None = None
        if num_dst < feat.shape[0]:
            self.nodes = self._active_rows = torch.arange(num_dst, device=feat.device)

    @property
    def existing_nodes(self) -> Tensor | None:
        """Ids of the active nodes, all of them ids of the graph."""
        return self.nodes

    def last(self) -> Tensor:
        """Return states, encodings and noise of the last frontier."""
        if self._last is None:
            rows = add_encoding(self._rows, self._encodings)
            self._last = with_noise(self.noise, "every_step", rows, self.last_nodes, self.step)
        return self._last

    def active(self) -> Tensor:
        """Return states, encodings and noise of the present frontier."""
        rows = self.last()
        return rows if self._active_rows is None else rows.index_select(0, self._active_rows)

    def active_states(self) -> Tensor:
        """Return the states of the present frontier, without encodings and noise."""
        rows = self._rows
        return rows if self._active_rows is None else rows.index_select(0, self._active_rows)

    def everyone(self, num_src: int) -> Tensor:
        """Return states, encodings and noise of all nodes, halted ones with their last state.

        It is called at each step. Sampled blocks have fewer nodes from step to step: only
        `num_src` are left.
        """
        if self.last_nodes is None:
            self._table = self.last()
        else:
            self._table = self._table[:num_src].index_copy(0, self.last_nodes, self.last())
        return self._table

    def restrict(self, num_dst: int) -> int:
        """Let only nodes below `num_dst` go on, as a sampled block asks; return their number."""
        every_row = torch.arange(len(self._rows), device=self._rows.device)
        nodes = every_row if self.nodes is None else self.nodes
        rows = every_row if self._active_rows is None else self._active_rows
        self.num_active = int((nodes < num_dst).sum())
        self.nodes, self._active_rows = nodes[: self.num_active], rows[: self.num_active]
        self.num_dst = num_dst
        return self.num_active

    def advance(self, states: Tensor, halts: Tensor) -> Split:
        """Take the new states of the frontier's rows, and let those go that halt."""
        halting, active = halts.nonzero()[:, 0], (~halts).nonzero()[:, 0]
        self.num_active = len(active)
        if not len(halting):
            self._advance(states, None)
            return Split(None, None, None)
        nodes = halting if self.nodes is None else self.nodes[halting]
        self._advance(states, active)
        return Split(nodes, halting, active)

    def _advance(self, states: Tensor, active_rows: Tensor | None) -> None:
        if self._encodings is not None and self._active_rows is not None:
            self._encodings = self._encodings.index_select(0, self._active_rows)
        self._rows, self._active_rows, self._last = states, active_rows, None
        self.last_nodes, self.step = self.nodes, self.step + 1
        if active_rows is not None:
            self.nodes = active_rows if self.nodes is None else self.nodes[active_rows]


class DeviceFrontier(Frontier):
    """A frontier of which only the device knows how many rows are true.

    Rows of active nodes come first. The rows behind them belong to a node `N_src`, which the graph
    does not have and to which no edge leads: its numbers are finite, and no result depends on
    them. The host takes the count of an earlier step, which `checks` have brought meanwhile, as a
    bound: frontiers only shrink.
    """

    nodes: Tensor  # (A,) ids, those of active nodes first and sorted, then `N_src`
    count: Tensor  # number of active nodes, on the device

    def __init__(
        self, feat: Tensor, encodings: Tensor | None, num_dst: int, checks: AsyncFiniteChecks
    ) -> None:
        self._missing = feat.shape[0]
        self._checks = checks
        self.count = torch.full((), num_dst, device=feat.device)
        encodings = None if encodings is None else _padded(encodings)
        super().__init__(_padded(feat), encodings, num_dst)

    @property
    def existing_nodes(self) -> Tensor:
        """Ids of the active nodes; for rows that are not true, ids of any nodes of the graph."""
        return existing(self.nodes, self._missing)

    def everyone(self, num_src: int) -> Tensor:
        """Return the rows of all nodes, and of the node that does not exist."""
        return super().everyone(num_src + 1)

    def advance(self, states: Tensor, halts: Tensor) -> Split:
        """Take the new states of the frontier's rows, and let those go that halt."""
        active = self.nodes < self._missing
        halting_nodes = self.nodes.masked_fill(~(active & halts), self._missing)
        order, self.count = active_first(active & ~halts)
        self.num_active = self._checks.bound(self.count)
        rows = order[: self.num_active]
        self._advance(states, rows)
        row = torch.arange(len(rows), device=rows.device)
        self.nodes = self.nodes.masked_fill(row >= self.count, self._missing)
        return Split(halting_nodes, None, rows)


class HaltedOutputs:
    """Outputs of the nodes that have halted, step by step; put in node order at the end."""

    def __init__(self) -> None:
        self._parts: list[tuple[Tensor, ...]] = []  # of each step: nodes, and what `in_order` gives

    def add(self, split: Split, out: Tensor, remainder: Tensor, cost: Tensor, step: int) -> None:
        """Keep the outputs of the rows that halt at this step."""
        nodes, rows = split.halting_nodes, split.halting_rows
        if nodes is None:
            return
        if rows is not None:
            out, remainder, cost = out.index_select(0, rows), remainder[rows], cost[rows]
        self._parts.append((nodes, out, torch.full_like(nodes, step), remainder, cost))

    def in_order(self, num_src: int, num_dst: int) -> list[Tensor]:
        """Return output, steps, remainder and cost of nodes below `num_dst`, in node order."""
        nodes, *columns = map(torch.cat, zip(*self._parts, strict=True))
        row_of = nodes.new_empty(num_src + 1)
        row_of.index_copy_(0, nodes, torch.arange(len(nodes), device=nodes.device))
        return [column.index_select(0, row_of[:num_dst]) for column in columns]


def active_first(active: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of a mask in a new order, `True` ones first, and how many these are."""
    row = torch.arange(len(active), device=active.device)
    ahead = active.cumsum(0)
    count = ahead[-1]
    target = torch.where(active, ahead - 1, count + row - ahead)
    return torch.empty_like(row).scatter_(0, target, row), count


def add_encoding(rows: Tensor, encoding: Tensor | None) -> Tensor:
    """Return rows with their encodings, `(A, d)` or one `(d,)` for all, if they have any."""
    return rows if encoding is None else rows + encoding


def _padded(rows: Tensor) -> Tensor:
    return pad(rows, (0, 0, 0, 1))
