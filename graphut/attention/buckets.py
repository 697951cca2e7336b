"""Many small tiles at once: padded to a common size, in buckets of like size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from graphut.attention.layout import IntervalLayout


@dataclass(frozen=True, eq=False)
class Bucket:
    """Tiles of like size, padded to one shape."""

    shape: tuple[int, int, int]  # tiles, rows of the largest, sources of the largest
    mask: Tensor  # (tiles, 1, r, s) bool, which source each row sees


@dataclass(frozen=True, eq=False)
class Buckets:
    """All tiles of a call."""

    parts: list[Bucket]
    rows: PaddedIndex  # of query rows in the buckets' tables, one after another
    sources: PaddedIndex  # of keys and values

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Return attention `(A, H, Dv)` of all buckets."""
        shapes = [part.shape for part in self.parts]
        queries = self.rows.pad(query).split([b * r for b, r, _ in shapes])
        sizes = [b * s for b, _, s in shapes]
        keys, values = self.sources.pad(key).split(sizes), self.sources.pad(value).split(sizes)
        parts = []
        for part, q, k, v in zip(self.parts, queries, keys, values, strict=True):
            tiles = part.shape[0]
            q, k, v = (x.unflatten(0, (tiles, -1)).transpose(1, 2) for x in (q, k, v))
            out = scaled_dot_product_attention(q, k, v, attn_mask=part.mask, scale=scale)
            parts.append(out.transpose(1, 2).flatten(0, 1))
        return self.rows.unpad(torch.cat(parts))


@dataclass(frozen=True, eq=False)
class PaddedIndex:
    """The place of rows in a longer, padded table."""

    index: Tensor  # (table,) the row in each place; in padding any row of the tile
    place: Tensor | None  # (rows,) the one place where each row counts, or -1; None: maybe several

    def pad(self, rows: Tensor) -> Tensor:
        """Return the table of rows; gradients of padding are dropped."""
        if self.place is None:
            return rows.index_select(0, self.index)
        return _Gather.apply(  # type: ignore[no-untyped-call]
            rows, self.index, self.place
        )

    def unpad(self, table: Tensor) -> Tensor:
        """Return the rows of a table."""
        assert self.place is not None
        return table.index_select(0, self.place)


class _Gather(torch.autograd.Function):
    """`rows[index]`, whose gradient is a gather too where a row counts in one place only."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        return rows.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (place,) = ctx.saved_tensors
        nowhere = (place < 0).view(-1, *[1] * (grad.dim() - 1))
        return grad.index_select(0, place.clamp_min(0)).masked_fill_(nowhere, 0.0), None, None


def make_buckets(
    layout: IntervalLayout,
    frontier: Tensor | None,
    cuts: Tensor,
    low: Tensor,
    high: Tensor,
    partition: bool,
) -> Buckets:
    """Sort tiles into buckets by the binary logarithm of their number of sources.

    `cuts`, `(tiles + 1,)`, is the first row of each tile among the query rows of the frontier;
    `low` and `high`, `(tiles,)`, its interval of sources; `partition` says that no two overlap.
    """
    counts = cuts.diff()
    tile = counts.nonzero()[:, 0]
    first, counts, low, sizes = cuts[tile], counts[tile], low[tile], (high - low)[tile]
    row_lo = layout.lo if frontier is None else layout.lo[frontier]
    row_hi = layout.hi if frontier is None else layout.hi[frontier]
    row_place = torch.full_like(row_lo, -1)
    source_place = row_lo.new_full((layout.num_src,), -1)
    parts: list[Bucket] = []
    rows: list[Tensor] = []
    sources: list[Tensor] = []
    kind = sizes.double().log2().ceil().long()
    for value in torch.unique(kind).tolist():
        mine = (kind == value).nonzero()[:, 0]
        row = _table(first[mine], counts[mine], row_place, sum(x.numel() for x in rows))
        source = _table(low[mine], sizes[mine], source_place, sum(x.numel() for x in sources))
        place = low[mine, None] + torch.arange(source.shape[1], device=low.device)
        mask = place[:, None] >= row_lo[row][..., None]
        mask &= place[:, None] < row_hi[row][..., None]
        parts.append(Bucket((len(mine), row.shape[1], source.shape[1]), mask[:, None]))
        rows.append(row.flatten())
        sources.append(source.flatten())
    return Buckets(
        parts,
        PaddedIndex(torch.cat(rows), row_place),
        PaddedIndex(torch.cat(sources), source_place if partition else None),
    )


def _table(first: Tensor, counts: Tensor, place: Tensor, used: int) -> Tensor:
    """Return `(tiles, longest)` indices `first, first + 1, ...`, and write the place of each."""
    step = torch.arange(int(counts.max()), device=first.device)
    index = first[:, None] + step
    counts_here = step < counts[:, None]
    place[index[counts_here]] = used + counts_here.flatten().nonzero()[:, 0]
    return index.minimum(first[:, None] + counts[:, None] - 1)
