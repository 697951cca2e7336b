"""Sentences padded to the longest of a batch, and the masks that go with them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphut.attention import EdgeLayout


@dataclass(frozen=True, eq=False)
class PaddedBatch:
    """The places of rows when all sentences are padded to the longest.

    Examples
    --------
    >>> batch = PaddedBatch.of(torch.tensor([1, 2]))
    >>> batch.pad(torch.tensor([5, 6, 7]))
    tensor([[5, 0],
            [6, 7]])
    >>> batch.unpad(batch.pad(torch.tensor([5, 6, 7])))
    tensor([5, 6, 7])
    """

    present: Tensor  # (batch, longest) bool, true where there is a row

    @classmethod
    def of(cls, counts: Tensor) -> PaddedBatch:
        """Return the batch of sentences that have these numbers of rows."""
        return cls(torch.arange(int(counts.max()), device=counts.device) < counts[:, None])

    def pad(self, rows: Tensor) -> Tensor:
        """Return `(N, ...)` as `(batch, longest, ...)`, with zeros where there is no row."""
        table = rows.new_zeros(*self.present.shape, *rows.shape[1:])
        table[self.present] = rows
        return table

    def unpad(self, table: Tensor) -> Tensor:
        """Return `(batch, longest, ...)` as `(N, ...)`."""
        return table[self.present]

    @property
    def index(self) -> Tensor:
        """`(N, 2)`, sentence and column of each row."""
        return self.present.nonzero()


def rows_by_sentence(layout: EdgeLayout, frontier: Tensor | None) -> Tensor:
    """Count the active destinations of each sentence, `(batch,)`."""
    lengths = layout.dst_lengths.to(layout.device)
    if frontier is None:
        return lengths
    sentence = torch.repeat_interleave(lengths)[frontier]
    return torch.bincount(sentence, minlength=lengths.numel())


def padded_mask(rows: PaddedBatch, sources: PaddedBatch, in_edges: tuple[Tensor, Tensor]) -> Tensor:
    """Return the attention mask, `(batch, 1, rows, sources)` bool, of `(row, source)` edges.

    It has one row for all where all rows attend to the same sources. A padded row attends to all
    real sources of its sentence, or its softmax would be undefined.
    """
    row, source = in_edges
    (sentence, line), column = rows.index[row].T, sources.index[source, 1]
    mask = sources.present[:, None] & ~rows.present[..., None]
    mask[sentence, line, column] = True
    if bool((mask == mask[:, :1]).all()):
        mask = mask[:, :1]
    return mask[:, None]
