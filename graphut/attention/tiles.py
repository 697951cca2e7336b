"""Interval layouts on torch's scaled-dot-product attention.

Destinations that share most of their sources form a tile: a sentence, or a stretch of a long one
with a narrow window. Each tile is one dense attention of its rows over its interval of sources;
small ones are done many at a time, padded to buckets.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from graphut.attention.buckets import Buckets, make_buckets
from graphut.attention.call import AttentionCall
from graphut.attention.layout import EdgeLayout, IntervalLayout
from graphut.attention.ragged import ragged_arange

# A sentence is cut into stretches of this many rows where a dense tile of it would be mostly mask.
_STRETCH = 128
_MOSTLY_MASK = 4
# A call of its own pays for a tile whose rows and sources hold this many entries, on average.
_OWN_CALL = 16384


@dataclass(frozen=True, eq=False)
class Tiles:
    """The tiles of a layout, in the order of their rows."""

    cuts: Tensor  # (tiles + 1,) the first row of each tile
    low: Tensor  # (tiles,) the first source that a row of each tile attends to
    high: Tensor  # (tiles,) the source after the last
    lo: list[int]  # `low` for the host
    hi: list[int]  # `high` for the host
    whole: list[bool]  # whether every row of the tile attends to its whole interval
    causal: list[bool]  # whether row i of the tile attends to the first i + 1 sources of it
    partition: bool  # whether the intervals split the sources, which need no gathering then


def tile_attention(call: AttentionCall) -> Tensor:
    """Attend tile by tile, all at once where the tiles are alike."""
    layout = call.layout
    assert isinstance(layout, IntervalLayout)
    if layout.has_empty_rows:
        return _without_empty_rows(call, layout)
    return _attend(call.query, call, layout, call.frontier)


def _without_empty_rows(call: AttentionCall, layout: IntervalLayout) -> Tensor:
    degrees = layout.in_degrees if call.frontier is None else layout.in_degrees[call.frontier]
    rows = degrees.nonzero()[:, 0]
    nodes = rows if call.frontier is None else call.frontier[rows]
    out = call.value.new_zeros(call.query.shape[0], *call.value.shape[1:])
    if not rows.numel():
        return out
    return out.index_copy(0, rows, _attend(call.query[rows], call, layout, nodes))


def _attend(
    query: Tensor, call: AttentionCall, layout: IntervalLayout, frontier: Tensor | None
) -> Tensor:
    tiles = layout.cached(find_tiles)
    cuts = tiles.cuts if frontier is None else torch.searchsorted(frontier, tiles.cuts)
    rows = [stop - start for start, stop in pairwise(cuts.tolist())]
    if _alike(tiles, rows, full=frontier is None):
        return _attend_all_at_once(query, call, len(rows), tiles.causal[0] and not tiles.whole[0])
    if _small(call, tiles, rows):
        buckets = (
            layout.cached(_full_buckets)
            if frontier is None
            else make_buckets(layout, frontier, cuts, tiles.low, tiles.high, tiles.partition)
        )
        return buckets.attend(query, call.key, call.value, call.scale)
    return _attend_one_by_one(query, call, layout, frontier, rows)


def _full_buckets(layout: EdgeLayout) -> Buckets:
    assert isinstance(layout, IntervalLayout)
    tiles = layout.cached(find_tiles)
    return make_buckets(layout, None, tiles.cuts, tiles.low, tiles.high, tiles.partition)


def _small(call: AttentionCall, tiles: Tiles, rows: list[int]) -> bool:
    """Return whether the tiles with rows in them are too small for a call each."""
    own = [count + tiles.hi[tile] - tiles.lo[tile] for tile, count in enumerate(rows) if count]
    return sum(own) * call.key.shape[1:].numel() < _OWN_CALL * len(own)


def _attend_one_by_one(
    query: Tensor,
    call: AttentionCall,
    layout: IntervalLayout,
    frontier: Tensor | None,
    rows: list[int],
) -> Tensor:
    tiles = layout.cached(find_tiles)
    lo = layout.lo if frontier is None else layout.lo[frontier]
    hi = layout.hi if frontier is None else layout.hi[frontier]
    keys, values = _intervals(call.key, tiles), _intervals(call.value, tiles)
    # Split, not sliced: the gradient of each slice would be a table of all rows.
    queries, los, his = query.split(rows), lo.split(rows), hi.split(rows)
    parts = []
    for tile, count in enumerate(rows):
        if not count:
            continue
        causal = frontier is None and tiles.causal[tile] and not tiles.whole[tile]
        mask = None
        if not (causal or tiles.whole[tile]):
            source = torch.arange(tiles.lo[tile], tiles.hi[tile], device=query.device)
            mask = (source >= los[tile][:, None]) & (source < his[tile][:, None])
        part = scaled_dot_product_attention(
            _by_head(queries[tile]),
            _by_head(keys[tile]),
            _by_head(values[tile]),
            attn_mask=mask,
            is_causal=causal,
            scale=call.scale,
        )
        parts.append(part[0].transpose(0, 1))
    return torch.cat(parts)


def _by_head(rows: Tensor) -> Tensor:
    """Return `(rows, H, D)` as `(1, H, rows, D)`."""
    return rows.transpose(0, 1)[None]


def _intervals(rows: Tensor, tiles: Tiles) -> tuple[Tensor, ...]:
    """Return the rows of each tile's interval of sources."""
    ends = [*zip(tiles.lo, tiles.hi, strict=True)]
    if not tiles.partition:
        sources = [torch.arange(lo, hi, device=rows.device) for lo, hi in ends]
        rows = rows.index_select(0, torch.cat(sources))
    return rows.split([hi - lo for lo, hi in ends])


def _alike(tiles: Tiles, rows: list[int], full: bool) -> bool:
    """Return whether all tiles have as many rows and sources and one pattern without a mask."""
    sizes = {hi - lo for lo, hi in zip(tiles.lo, tiles.hi, strict=True)}
    pattern = all(tiles.whole) or (full and all(tiles.causal))
    return tiles.partition and pattern and len(set(rows)) == 1 and len(sizes) == 1


def _attend_all_at_once(query: Tensor, call: AttentionCall, tiles: int, causal: bool) -> Tensor:
    def by_tile(rows: Tensor) -> Tensor:
        return rows.view(tiles, -1, *rows.shape[1:]).transpose(1, 2)

    out = scaled_dot_product_attention(
        by_tile(query), by_tile(call.key), by_tile(call.value), is_causal=causal, scale=call.scale
    )
    return out.transpose(1, 2).flatten(0, 1)


def find_tiles(layout: EdgeLayout) -> Tiles:
    """Cut a layout into tiles: by sentence, and by stretch where that saves work."""
    assert isinstance(layout, IntervalLayout)
    lo, hi = layout.lo.cpu(), layout.hi.cpu()
    sentence, place = ragged_arange(layout.dst_lengths)
    low, high = _extent(lo, hi, sentence, layout.dst_lengths.numel())
    area = layout.dst_lengths * (high - low)
    edges = torch.zeros_like(area).index_add(0, sentence, hi - lo)
    sparse = (area > _MOSTLY_MASK * edges) & (layout.dst_lengths > _STRETCH)
    begins = (place == 0) | (sparse[sentence] & (place % _STRETCH == 0))
    tile = begins.cumsum(0) - 1
    starts = begins.nonzero()[:, 0]
    low, high = _extent(lo, hi, tile, starts.numel())

    cuts = torch.cat([starts, torch.tensor([lo.numel()])])
    row = torch.arange(lo.numel()) - starts[tile]
    sees_first = lo == low[tile]
    whole = _all(sees_first & (hi == high[tile]), tile, starts.numel())
    causal = _all(sees_first & (hi == low[tile] + row + 1), tile, starts.numel())
    joined = torch.equal(low[1:], high[:-1]) and bool((low <= high).all())
    return Tiles(
        cuts=cuts.to(layout.device),
        low=low.to(layout.device),
        high=high.to(layout.device),
        lo=low.tolist(),
        hi=high.tolist(),
        whole=whole.tolist(),
        causal=causal.tolist(),
        partition=joined and int(low[0]) == 0 and int(high[-1]) == layout.num_src,
    )


def _extent(lo: Tensor, hi: Tensor, group: Tensor, groups: int) -> tuple[Tensor, Tensor]:
    """Return the union of the rows' intervals in each group; empty ones do not count."""
    filled = hi > lo
    far = torch.iinfo(torch.int64).max
    low = torch.full((groups,), far).scatter_reduce(0, group[filled], lo[filled], "amin")
    high = torch.zeros(groups, dtype=torch.int64)
    high = high.scatter_reduce(0, group[filled], hi[filled], "amax")
    return torch.minimum(low, high), high


def _all(flags: Tensor, group: Tensor, groups: int) -> Tensor:
    return torch.ones(groups, dtype=torch.bool).scatter_reduce(0, group, flags, "amin")
