"""Rows by node and step, kept only as deep as each node went."""

from __future__ import annotations

import torch
from torch import Tensor


class RaggedTable:
    """A table of nodes by steps that stores a row once, from the step on at which it was written.

    A node that halted early has few rows: what it shows at a later step is its last row.

    Parameters
    ----------
    max_steps : int
        The cap.

    Examples
    --------
    >>> import torch
    >>> table = RaggedTable(3)
    >>> node = table.add_nodes(1)
    >>> table.write(node, 1, torch.tensor([[1.0]]))
    >>> table.write(node, 2, torch.tensor([[2.0]]))
    >>> [table.read(node, step).item() for step in (1, 2, 3)]
    [1.0, 2.0, 2.0]
    """

    def __init__(self, max_steps: int) -> None:
        self._row_of = torch.zeros(0, max_steps, dtype=torch.int64)
        self._rows: Tensor | None = None
        self._used = 0

    def add_nodes(self, count: int) -> Tensor:
        """Make room for new nodes; return their ids, `(count,)`."""
        first = self._row_of.shape[0]
        self._row_of = torch.cat(
            [self._row_of, self._row_of.new_zeros(count, self._row_of.shape[1])]
        )
        return torch.arange(first, first + count)

    def write(self, nodes: Tensor, step: int, rows: Tensor) -> None:
        """What `nodes` show from `step` (from 1) on: `(R, width)`."""
        used = self._used + rows.shape[0]
        if self._rows is None:
            self._rows = rows.new_empty(2 * used, rows.shape[1])
        elif used > self._rows.shape[0]:
            self._rows = torch.cat([self._rows, torch.empty_like(self._rows), rows])
        self._rows[self._used : used] = rows
        self._row_of[nodes, step - 1 :] = torch.arange(self._used, used)[:, None]
        self._used = used

    def read(self, nodes: Tensor, step: int) -> Tensor:
        """What `nodes`, of any shape, show at `step`: that shape with `width` behind it."""
        assert self._rows is not None
        rows = self._row_of[:, step - 1][nodes]
        return self._rows[rows.to(self._rows.device)]
