"""Sentences padded to a rectangle, and the masks that go with it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphut.attention import EdgeLayout


@dataclass(frozen=True, eq=False)
class Rectangle:
    """Where rows of sentences lie when all sentences are padded to the longest.

    Parameters
    ----------
    present : Tensor
        `(batch, longest)` bool, the places of real rows.

    Examples
    --------
    >>> rectangle = Rectangle.of(torch.tensor([1, 2]))
    >>> rectangle.spread(torch.tensor([5, 6, 7]))
    tensor([[5, 0],
            [6, 7]])
    >>> rectangle.back(rectangle.spread(torch.tensor([5, 6, 7])))
    tensor([5, 6, 7])
    """

    present: Tensor

    @classmethod
    def of(cls, counts: Tensor) -> Rectangle:
        """From the number of rows of each sentence."""
        return cls(torch.arange(int(counts.max()), device=counts.device) < counts[:, None])

    def spread(self, rows: Tensor) -> Tensor:
        """`(N, ...)` as `(batch, longest, ...)`, with zeros where there is no row."""
        table = rows.new_zeros(*self.present.shape, *rows.shape[1:])
        table[self.present] = rows
        return table

    def back(self, table: Tensor) -> Tensor:
        """`(batch, longest, ...)` as `(N, ...)`."""
        return table[self.present]

    @property
    def place(self) -> Tensor:
        """`(N, 2)`, sentence and column of each row."""
        return self.present.nonzero()


def rows_by_sentence(layout: EdgeLayout, frontier: Tensor | None) -> Tensor:
    """`(batch,)`, how many destinations of each sentence are active."""
    lengths = layout.dst_lengths.to(layout.device)
    if frontier is None:
        return lengths
    sentence = torch.repeat_interleave(lengths)[frontier]
    return torch.bincount(sentence, minlength=lengths.numel())


def padded_mask(rows: Rectangle, sources: Rectangle, in_edges: tuple[Tensor, Tensor]) -> Tensor:
    """`(batch, 1, rows, sources)` bool; one row for all where all rows see the same.

    A padded row sees all real sources of its sentence, or its softmax would be undefined.

    Parameters
    ----------
    rows, sources : Rectangle
        Where queries, and keys and values, lie.
    in_edges : pair of Tensor
        `(row, source)` of every edge.
    """
    row, source = in_edges
    (sentence, line), column = rows.place[row].T, sources.place[source, 1]
    mask = sources.present[:, None] & ~rows.present[..., None]
    mask[sentence, line, column] = True
    if bool((mask == mask[:, :1]).all()):
        mask = mask[:, :1]
    return mask[:, None]
