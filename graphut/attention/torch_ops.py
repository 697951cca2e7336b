"""The backend "torch": attention in plain torch, on any device."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding, scaled_dot_product_attention

from graphut.attention.backend import AttentionCall, AttentionResult, Backend
from graphut.attention.edge_sums import edge_dot, edge_sum
from graphut.attention.layout import EdgeLayout, IntervalLayout
from graphut.attention.ragged import ragged_arange, row_maxima

# A sentence is cut into stretches of this many rows if its dense tile would be mostly mask.
_STRETCH = 128
_MOSTLY_MASK = 4


def torch_attention(call: AttentionCall) -> AttentionResult:
    """Compute attention with `tile_attention` if it supports the call, else edge by edge."""
    if not is_tiled(call):
        return segment_attention(call)

    return AttentionResult(tile_attention(call))


def is_tiled(call: AttentionCall) -> bool:
    """Return whether `tile_attention` supports a call; it is faster than DGL."""
    some = call.layout.num_edges > 0 and call.query.shape[0] > 0
    return isinstance(call.layout, IntervalLayout) and call.is_plain and some


def segment_attention(call: AttentionCall) -> AttentionResult:
    """Compute a score for each edge, a softmax over the in-edges of each row, and the output."""
    row, source, _ = call.edges
    query, key, value = (x.to(call.score_dtype) for x in (call.query, call.key, call.value))
    scores = edge_dot(query, key, row, source) * call.scale
    bias = call.bias()
    if bias is not None:
        scores = scores + bias
    weights = _segment_softmax(scores, row, query.shape[0])
    factors = call.weight_factors()
    if factors is not None:
        weights = weights * factors
    out = edge_sum(weights, value, row, source, query.shape[0])
    return AttentionResult(out.to(call.value.dtype), weights)


def _segment_softmax(scores: Tensor, row: Tensor, rows: int) -> Tensor:
    # The maximum only prevents overflow; its gradient is zero.
    top = row_maxima(scores.detach(), row, rows)
    exp = (scores - top.clamp_min(torch.finfo(top.dtype).min)[row]).exp()
    total = exp.new_zeros(rows, scores.shape[1]).index_add(0, row, exp)
    # The total is at least 1, or 0 if all scores of a row are -inf.
    return exp / total.clamp_min(0.5)[row]


class Tiles(NamedTuple):
    """All query rows, cut into blocks of consecutive rows with a range of sources each."""

    rows: list[int]  # number of query rows of each tile
    sources: list[int]  # number of sources of each tile
    # For each tile: a mask, (rows, sources) bool, if one is needed; and whether its row i attends
    # to the first i + 1 sources.
    masks: list[tuple[Tensor | None, bool]]
    source: Tensor | None  # the sources of all tiles in turn; None if they are all sources

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Compute attention with one dense call for each tile; return the output `(A, H, Dv)`."""
        if self.source is not None:  # the gradient of an embedding is faster than that of an index
            key, value = (
                embedding(self.source, x.flatten(1)).unflatten(-1, x.shape[1:])
                for x in (key, value)
            )
        tables = query.split(self.rows), key.split(self.sources), value.split(self.sources)
        outs = []
        for (mask, is_causal), *parts in zip(self.masks, *tables, strict=True):
            q, k, v = (part.transpose(0, 1)[None] for part in parts)
            out = scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, scale=scale)
            outs.append(out[0].transpose(0, 1))
        return torch.cat(outs)


def tile_attention(call: AttentionCall) -> Tensor:
    """Return the output `(A, H, Dv)` of attention without bias or dropout, tile by tile."""
    layout, frontier, tables = call.layout, call.frontier, (call.key, call.value, call.scale)
    if not layout.has_empty_rows:
        tiles = layout.cached(make_tiles) if frontier is None else make_tiles(layout, frontier)
        return tiles.attend(call.query, *tables)
    degrees = layout.in_degrees if frontier is None else layout.in_degrees[frontier]
    rows = degrees.nonzero()[:, 0]
    out = call.value.new_zeros(call.query.shape[0], *call.value.shape[1:])
    if not rows.numel():
        return out
    tiles = make_tiles(layout, rows if frontier is None else frontier[rows])
    return out.index_copy(0, rows, tiles.attend(call.query[rows], *tables))


def make_tiles(layout: EdgeLayout, frontier: Tensor | None = None) -> Tiles:
    """Cut query rows, each with an in-edge, into blocks for dense attention."""
    assert isinstance(layout, IntervalLayout)
    cuts, lo, hi = layout.cached(find_cuts).to(layout.device), layout.lo, layout.hi
    if frontier is not None:
        cuts, lo, hi = torch.searchsorted(frontier, cuts), lo[frontier], hi[frontier]
    rows, masks, ranges = [], list[tuple[Tensor | None, bool]](), []
    for first, last in pairwise(cuts.tolist()):
        if first == last:
            continue
        start, stop = lo[first:last, None], hi[first:last, None]
        source = torch.arange(int(start.min()), int(stop.max()), device=lo.device)
        mask = (source >= start) & (source < stop)
        is_causal = len(mask) == len(source) and torch.equal(mask, torch.ones_like(mask).tril())
        needed = not (is_causal or bool(mask.all()))
        rows.append(last - first)
        masks.append((mask if needed else None, is_causal))
        ranges.append(source)
    index = torch.cat(ranges)
    is_all = torch.equal(index, torch.arange(layout.num_src).to(index))
    return Tiles(rows, list(map(len, ranges)), masks, None if is_all else index)


def find_cuts(layout: EdgeLayout) -> Tensor:
    """Return the first row of each tile and the end of the last: `(tiles + 1,)` on the CPU.

    A tile is a sentence, or a part of a long sentence whose dense scores would mostly be masked.
    """
    assert isinstance(layout, IntervalLayout)
    lo, hi = layout.lo.cpu(), layout.hi.cpu()
    sentence, place = ragged_arange(layout.dst_lengths)
    edges, low, high = (torch.zeros_like(layout.dst_lengths) for _ in range(3))
    edges.index_add_(0, sentence, hi - lo)
    low.scatter_reduce_(0, sentence, lo, "amin", include_self=False)
    high.scatter_reduce_(0, sentence, hi, "amax", include_self=False)
    mostly_mask = layout.dst_lengths * (high - low) > _MOSTLY_MASK * edges
    begins = (place == 0) | (mostly_mask[sentence] & (place % _STRETCH == 0))
    return torch.cat([begins.nonzero()[:, 0], torch.tensor([lo.numel()])])


TORCH = Backend(name="torch", attend=torch_attention)
