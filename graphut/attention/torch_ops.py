"""The backend "torch": attention in plain torch, on any device."""

import torch
from torch import Tensor

from graphut.attention.backend import AttentionCall, AttentionResult, Backend
from graphut.attention.edge_sums import edge_dot, edge_sum
from graphut.attention.layout import IntervalLayout
from graphut.attention.ragged import row_maxima


def torch_attention(call: AttentionCall) -> AttentionResult:
    """Compute attention with `tile_attention` if it supports the call, else edge by edge."""
    if not is_tiled(call):
        return segment_attention(call)
    from graphut.attention.interval_sdpa import tile_attention

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


TORCH = Backend(name="torch", attend=torch_attention)
