"""Attention by segments of edges in plain torch: any layout, no tensor above E x H entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from graphut.attention.backend import AttentionResult
from graphut.attention.call import AttentionCall
from graphut.attention.transforms import in_transform

# Gathered rows are held for so many entries at a time: about 8 MiB in float32.
_ENTRIES = 1 << 21


def segment_attention(call: AttentionCall) -> AttentionResult:
    """Attend edge by edge: scores, softmax over the in-edges of each row, weighted sums.

    Queries, keys and values of the edges are gathered chunk by chunk, forward and backward,
    so that nothing of the size edges x heads x features ever exists, but inside of torch.func.
    """
    row, source, _ = call.edges
    query, key, value = (x.to(call.score_dtype) for x in (call.query, call.key, call.value))
    scores = _edge_dot(query, key, row, source) * call.scale
    bias = call.bias()
    if bias is not None:
        scores = scores + bias
    weights = _segment_softmax(scores, row, query.shape[0])
    factors = call.dropout_factors()
    if factors is not None:
        weights = weights * factors
    out = _edge_sum(weights, value, row, source, query.shape[0])
    return AttentionResult(out.to(call.value.dtype), weights)


def _edge_dot(query: Tensor, key: Tensor, row: Tensor, source: Tensor) -> Tensor:
    if in_transform():
        return (query[row] * key[source]).sum(-1)
    scores: Tensor = _EdgeDot.apply(query, key, row, source)  # type: ignore[no-untyped-call]
    return scores


def _edge_sum(weights: Tensor, value: Tensor, row: Tensor, source: Tensor, rows: int) -> Tensor:
    if in_transform():
        zeros = value.new_zeros(rows, *value.shape[1:])
        return zeros.index_add(0, row, weights[:, :, None] * value[source])
    out: Tensor = _EdgeSum.apply(weights, value, row, source, rows)  # type: ignore[no-untyped-call]
    return out


def _segment_softmax(scores: Tensor, row: Tensor, rows: int) -> Tensor:
    index = row[:, None].expand_as(scores)
    # The maximum only guards the exponential: its gradient is zero.
    top = scores.new_full((rows, scores.shape[1]), -torch.inf)
    top = top.scatter_reduce(0, index, scores.detach(), "amax")
    exp = (scores - top.clamp_min(torch.finfo(top.dtype).min)[row]).exp()
    total = exp.new_zeros(rows, scores.shape[1]).index_add(0, row, exp)
    # A live row's total is at least 1; that of a row whose scores are all -inf is 0.
    return exp / total.clamp_min(0.5)[row]


def _chunks(edges: int, entries_an_edge: int) -> Iterator[slice]:
    if torch.compiler.is_compiling():
        return iter([slice(None)])  # how many edges there are is not known then
    size = max(1, _ENTRIES // max(1, entries_an_edge))
    return (slice(start, start + size) for start in range(0, edges, size))


def edge_dot(a: Tensor, b: Tensor, a_rows: Tensor, b_rows: Tensor) -> Tensor:
    """Return `out[e, h] = a[a_rows[e], h] . b[b_rows[e], h]`."""
    out = a.new_empty(a_rows.numel(), a.shape[1])
    for part in _chunks(a_rows.numel(), a.shape[1:].numel()):
        out[part] = (a[a_rows[part]] * b[b_rows[part]]).sum(-1)
    return out


def _sum(weights: Tensor, b: Tensor, to_rows: Tensor, b_rows: Tensor, rows: int) -> Tensor:
    """Return `out[i, h]`: the sum of `weights[e, h] * b[b_rows[e], h]` where `to_rows[e] = i`."""
    out = b.new_zeros(rows, *b.shape[1:])
    for part in _chunks(to_rows.numel(), b.shape[1:].numel()):
        out.index_add_(0, to_rows[part], weights[part, :, None] * b[b_rows[part]])
    return out


class _EdgeDot(torch.autograd.Function):
    """Scores of edges; see `edge_dot`."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, row: Tensor, source: Tensor) -> Tensor:
        ctx.save_for_backward(query, key, row, source)
        return edge_dot(query, key, row, source)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, row, source = ctx.saved_tensors
        to_query = _sum(grad, key, row, source, query.shape[0])
        to_key = _sum(grad, query, source, row, key.shape[0])
        return to_query, to_key, None, None


class _EdgeSum(torch.autograd.Function):
    """Weighted sums over in-edges; see `_sum`."""

    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, value: Tensor, row: Tensor, source: Tensor, rows: int
    ) -> Tensor:
        ctx.save_for_backward(weights, value, row, source)
        return _sum(weights, value, row, source, rows)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, value, row, source = ctx.saved_tensors
        to_weights = edge_dot(grad, value, row, source)
        to_value = _sum(weights, grad, source, row, value.shape[0])
        return to_weights, to_value, None, None, None
