"""Packed rows of the nodes that have not halted."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from graphut.nn.noise import Noise, with_noise


class HaltSplit(NamedTuple):
    """The rows of a frontier that halt in a step, and the rows that stay active."""

    halting_nodes: Tensor | None  # (B,) ids of the halting nodes; None if no node halts
    halting_rows: Tensor | None  # (B,) their rows in the frontier; None for all rows in order
    active_rows: Tensor | None  # rows that stay active; None for all


class ActiveRows:
    """The states of the nodes that were active in the last step, and which of them still are.

    Rows of nodes that have just halted are kept for one step more, because their final states are
    projected to keys and values once.

    Parameters
    ----------
    feat : Tensor
        `(N_src, d)`, the first states of all nodes.
    encodings : Tensor or None
        `(N_src, d)`, added to the states at every step.
    num_dst : int
        Nodes from here on never compute; they count as halted before the first step.
    noise : Noise
        The noise of the run.
    """

    count: Tensor | None = None  # number of active rows, where only the device knows it

    def __init__(
        self, feat: Tensor, encodings: Tensor | None, num_dst: int, noise: Noise | None = None
    ) -> None:
        self.nodes: Tensor | None = None  # ids of the active nodes; None for all
        self.last_nodes: Tensor | None = None  # ids of the nodes that were active before
        self.num_dst = self.num_active = num_dst  # number of active nodes
        self.step = 1  # the next step
        self._noise = noise or {}
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
            self._last = with_noise(self._noise, "every_step", rows, self.last_nodes, self.step)
        return self._last

    def active(self) -> Tensor:
        """Return states, encodings and noise of the present frontier."""
        rows = self.last()
        return rows if self._active_rows is None else rows.index_select(0, self._active_rows)

    def active_states(self) -> Tensor:
        """Return the states of the present frontier, without encodings and noise."""
        rows = self._rows
        return rows if self._active_rows is None else rows.index_select(0, self._active_rows)

    def all_states(self, num_src: int) -> Tensor:
        """Return states, encodings and noise of the first `num_src` nodes, with final states.

        It must be called at every step, because it keeps a table of halted nodes.
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


def add_encoding(rows: Tensor, encoding: Tensor | None) -> Tensor:
    """Add encodings, `(A, d)` or one `(d,)` for all rows, if there are any."""
    return rows if encoding is None else rows + encoding
