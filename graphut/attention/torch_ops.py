"""The backend "torch": attention in plain torch, on any device."""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from graphut.attention.backend import AttentionCall, AttentionResult, Backend
from graphut.attention.edge_sums import edge_dot, edge_sum
from graphut.attention.layout import EdgeLayout, IntervalLayout
from graphut.attention.ragged import row_maxima

# Sentences with more pairs of tokens for each edge are computed edge by edge.
_MOSTLY_MASK = 4


def torch_attention(call: AttentionCall) -> AttentionResult:
    """Compute attention with `tile_attention` if it supports the call, else edge by edge."""
    if not is_tiled(call):
        return segment_attention(call)
    return AttentionResult(tile_attention(call))


def is_tiled(call: AttentionCall) -> bool:
    """Return whether `tile_attention` supports a call; it is faster than DGL."""
    by_edge = call.has_bias or call.dropout or call.need_weights
    return not by_edge and call.query.shape[0] > 0 and call.layout.cached(is_mostly_dense)


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


def tile_attention(call: AttentionCall) -> Tensor:
    """Return the output `(A, H, Dv)` of attention without bias or dropout, sentence by sentence."""
    layout, frontier = call.layout, call.frontier
    rows, masks = layout.cached(make_masks) if frontier is None else make_masks(layout, frontier)
    sources = layout.src_lengths.tolist()
    tables = call.query.split(rows), call.key.split(sources), call.value.split(sources)
    outs = []
    for (mask, is_causal), *parts in zip(masks, *tables, strict=True):
        q, k, v = (part.transpose(0, 1)[None] for part in parts)
        out = scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, scale=call.scale)
        outs.append(out[0].transpose(0, 1))
    return torch.cat(outs)


def make_masks(
    layout: EdgeLayout, frontier: Tensor | None = None
) -> tuple[list[int], list[tuple[Tensor | None, bool]]]:
    """Return, for each sentence, the number of its query rows, and its mask.

    A mask, `(rows, sources)`, is True where the row attends to the source; None if it is not
    needed. With it comes whether row `i` attends to the first `i + 1` sources.
    """
    assert isinstance(layout, IntervalLayout)
    lo, hi, lengths = layout.lo, layout.hi, layout.dst_lengths
    if frontier is not None:
        sentence = torch.repeat_interleave(lengths)[frontier.cpu()]
        lo, hi = lo[frontier], hi[frontier]
        lengths = torch.bincount(sentence, minlength=len(lengths))
    rows, masks = lengths.tolist(), list[tuple[Tensor | None, bool]]()
    all_sources = torch.arange(layout.num_src, device=lo.device)
    for source, *ends in zip(
        all_sources.split(layout.src_lengths.tolist()), lo.split(rows), hi.split(rows), strict=True
    ):
        start, stop = (end[:, None] for end in ends)
        mask = (source >= start) & (source < stop)
        is_causal = torch.equal(mask, torch.ones_like(mask).tril()) and len(mask) == len(source)
        masks.append((None if is_causal or bool(mask.all()) else mask, is_causal))
    return rows, masks


def is_mostly_dense(layout: EdgeLayout) -> bool:
    """Return whether destinations attend to most sources of their own sentence, and no others."""
    if not isinstance(layout, IntervalLayout) or layout.has_empty_rows:
        return False
    dst_lengths, src_lengths = layout.dst_lengths, layout.src_lengths
    pairs = len(dst_lengths) == len(src_lengths) and int((dst_lengths * src_lengths).sum())
    if not 0 < pairs <= _MOSTLY_MASK * layout.num_edges:
        return False
    ends, sentence = src_lengths.cumsum(0), torch.repeat_interleave(dst_lengths)
    lo, hi = layout.lo.cpu(), layout.hi.cpu()
    return bool(((lo >= (ends - src_lengths)[sentence]) & (hi <= ends[sentence])).all())


TORCH = Backend(name="torch", attend=torch_attention)
