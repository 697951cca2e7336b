"""Attention over interval layouts by torch's scaled-dot-product attention.

Destinations that share most of their sources form a tile: a sentence, or a stretch of a long
sentence with a narrow window. Tiles of similar size are padded to one shape and computed together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding, scaled_dot_product_attention

from graphut.attention.call import AttentionCall
from graphut.attention.layout import EdgeLayout, IntervalLayout
from graphut.attention.ragged import ragged_arange

# A sentence is cut into stretches of this many rows if its dense tile would be mostly mask.
_STRETCH = 128
_MOSTLY_MASK = 4
# Tiles of up to this many sources are padded to a size class. Each doubling has four classes, so
# that padding adds less than a fifth.
_PADDED = 128
_CLASSES = 4


@dataclass(frozen=True, eq=False)
class Bucket:
    """Tiles of similar size, padded to one shape.

    A tile is a block of query rows, with the range of sources that they attend to.
    """

    shape: tuple[int, int, int]  # tiles, rows of a tile, sources of a tile
    mask: Tensor | None  # (tiles, 1, rows, sources) bool, the sources of each row; None for all
    is_causal: bool  # whether row i attends to the first i + 1 sources


@dataclass(frozen=True, eq=False)
class Buckets:
    """The buckets of a call, with indices into the padded tables; None for `arange`."""

    parts: list[Bucket]
    rows: Tensor | None  # the query row in each place of all buckets
    sources: Tensor | None  # the source in each place
    place: Tensor | None  # (A,) the place of each query row

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Compute the attention of all tiles, one dense call per bucket; return `(A, H, Dv)`."""
        rows = [tiles * r for tiles, r, _ in (part.shape for part in self.parts)]
        sources = [tiles * s for tiles, _, s in (part.shape for part in self.parts)]
        queries = _gather(query, self.rows).split(rows)
        keys, values = (_gather(table, self.sources).split(sources) for table in (key, value))
        outs = []
        for part, *tables in zip(self.parts, queries, keys, values, strict=True):
            q, k, v = (x.unflatten(0, (part.shape[0], -1)).transpose(1, 2) for x in tables)
            out = scaled_dot_product_attention(
                q, k, v, attn_mask=part.mask, is_causal=part.is_causal, scale=scale
            )
            outs.append(out.transpose(1, 2).flatten(0, 1))
        return _gather(torch.cat(outs), self.place)


def _gather(table: Tensor, index: Tensor | None) -> Tensor:
    """Return `table[index]`; the gradient of an embedding is faster than that of an index."""
    if index is None:
        return table
    return embedding(index, table.flatten(1)).unflatten(-1, table.shape[1:])


def tile_attention(call: AttentionCall) -> Tensor:
    """Compute plain attention on an interval layout by dense tiles; return `(A, H, Dv)`."""
    layout, frontier = call.layout, call.frontier
    assert isinstance(layout, IntervalLayout)
    tables = (call.key, call.value, call.scale)
    if not layout.has_empty_rows:
        buckets = (
            layout.cached(make_buckets) if frontier is None else make_buckets(layout, frontier)
        )
        return buckets.attend(call.query, *tables)
    degrees = layout.in_degrees if frontier is None else layout.in_degrees[frontier]
    rows = degrees.nonzero()[:, 0]
    out = call.value.new_zeros(call.query.shape[0], *call.value.shape[1:])
    if not rows.numel():
        return out
    buckets = make_buckets(layout, rows if frontier is None else frontier[rows])
    return out.index_copy(0, rows, buckets.attend(call.query[rows], *tables))


def make_buckets(layout: EdgeLayout, frontier: Tensor | None = None) -> Buckets:
    """Sort the tiles of a layout into buckets by their number of sources.

    Every query row of the frontier must have an in-edge.
    """
    assert isinstance(layout, IntervalLayout)
    cuts, low, high = layout.cached(find_tiles)
    lo, hi = layout.lo, layout.hi
    if frontier is not None:
        cuts, lo, hi = torch.searchsorted(frontier, cuts), lo[frontier], hi[frontier]
    active = cuts.diff().nonzero()[:, 0]
    first, counts = cuts[active], cuts.diff()[active]
    low, sizes = low[active], (high - low)[active]
    kind = torch.where(sizes > _PADDED, sizes, (_CLASSES * sizes.double().log2()).ceil().long())
    parts: list[Bucket] = []
    rows: list[Tensor] = []
    sources: list[Tensor] = []
    for value in kind.unique():
        mine = (kind == value).nonzero()[:, 0]
        row, source = _ranges(first[mine], counts[mine]), _ranges(low[mine], sizes[mine])
        start, stop = (ends[row] - low[mine, None] for ends in (lo, hi))
        shape = (len(mine), row.shape[1], source.shape[1])
        parts.append(Bucket(shape, *_mask(start, stop, source.shape[1])))
        rows.append(row.flatten())
        sources.append(source.flatten())
    row_index, source_index = torch.cat(rows), torch.cat(sources)
    # Padding repeats the last row of a tile. The output is read from the first of its places.
    places = torch.arange(len(row_index), device=lo.device)
    place = torch.full_like(lo, len(places)).scatter_reduce(0, row_index, places, "amin")
    return Buckets(
        parts,
        _unless_identity(row_index, len(lo)),
        _unless_identity(source_index, layout.num_src),
        _unless_identity(place, len(places)),
    )


def _unless_identity(index: Tensor, size: int) -> Tensor | None:
    return None if torch.equal(index, torch.arange(size, device=index.device)) else index


def _ranges(first: Tensor, counts: Tensor) -> Tensor:
    """Return `(tiles, longest)` indices `first, first + 1, ...`, padded with the last one."""
    step = torch.arange(int(counts.max()), device=first.device)
    return first[:, None] + step.minimum(counts[:, None] - 1)


def _mask(start: Tensor, stop: Tensor, sources: int) -> tuple[Tensor | None, bool]:
    """Return the mask of rows that see the sources `[start, stop)`, and whether it is causal."""
    row, source = (torch.arange(n, device=start.device) for n in (start.shape[1], sources))
    from_first = bool((start == 0).all())
    if from_first and bool((stop == sources).all()):
        return None, False
    if from_first and len(row) == sources and bool((stop == row + 1).all()):
        return None, True
    return ((source >= start[..., None]) & (source < stop[..., None]))[:, None], False


def find_tiles(layout: EdgeLayout) -> tuple[Tensor, Tensor, Tensor]:
    """Cut a layout into tiles: by sentence, and into stretches where that saves work.

    Returns the first row of each tile and the end of the last, `(tiles + 1,)`, and the first source
    of each tile and the end of its sources, `(tiles,)`.
    """
    assert isinstance(layout, IntervalLayout)
    lo, hi = layout.lo.cpu(), layout.hi.cpu()
    sentence, place = ragged_arange(layout.dst_lengths)
    low, high = _extent(lo, hi, sentence, layout.dst_lengths.numel())
    area = layout.dst_lengths * (high - low)
    edges = torch.zeros_like(area).index_add(0, sentence, hi - lo)
    sparse = (area > _MOSTLY_MASK * edges) & (layout.dst_lengths > _STRETCH)
    begins = (place == 0) | (sparse[sentence] & (place % _STRETCH == 0))
    starts = begins.nonzero()[:, 0]
    low, high = _extent(lo, hi, begins.cumsum(0) - 1, starts.numel())
    cuts = torch.cat([starts, torch.tensor([lo.numel()])])
    return cuts.to(layout.device), low.to(layout.device), high.to(layout.device)


def _extent(lo: Tensor, hi: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Return the first source and the end of the sources of each group of rows."""
    filled = hi > lo
    far = torch.iinfo(torch.int64).max
    low = torch.full((groups,), far).scatter_reduce(0, group[filled], lo[filled], "amin")
    high = torch.zeros(groups, dtype=torch.int64)
    high = high.scatter_reduce(0, group[filled], hi[filled], "amax")
    return torch.minimum(low, high), high
