"""Dot products and weighted sums along edges, in chunks, so that no tensor has all edges' features.

A table with one head is broadcast to all heads.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

# Entries of the gathered rows of a chunk: about 8 MiB in float32.
_ENTRIES = 1 << 21


def edge_dot(a: Tensor, b: Tensor, a_rows: Tensor, b_rows: Tensor) -> Tensor:
    """Return the dot products `out[e, h] = a[a_rows[e], h] . b[b_rows[e], h]`, `(E, H)`."""
    return _EdgeDot.apply(a, b, a_rows, b_rows)  # type: ignore[no-untyped-call]


def edge_sum(weights: Tensor, b: Tensor, to_rows: Tensor, b_rows: Tensor, rows: int) -> Tensor:
    """Return, `(rows, H, D)`, the sums of `weights[e, h] * b[b_rows[e], h]` over edges to each row.

    `to_rows` has the row of each edge, and `weights` is `(E, H)`.
    """
    shape = (rows, weights.shape[1], b.shape[2])
    return _EdgeSum.apply(weights, b, to_rows, b_rows, shape)  # type: ignore[no-untyped-call]


def _chunks(edges: int, entries_an_edge: int) -> Iterator[slice]:
    size = max(1, _ENTRIES // max(1, entries_an_edge))
    return (slice(start, start + size) for start in range(0, edges, size))


class _EdgeDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, a_rows: Tensor, b_rows: Tensor) -> Tensor:
        ctx.save_for_backward(a, b, a_rows, b_rows)
        heads = max(a.shape[1], b.shape[1])
        out = a.new_empty(a_rows.numel(), heads)
        for part in _chunks(a_rows.numel(), heads * a.shape[2]):
            out[part] = (a[a_rows[part]] * b[b_rows[part]]).sum(-1)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b, a_rows, b_rows = ctx.saved_tensors
        to_a = to_b = None
        if ctx.needs_input_grad[0]:
            to_a = _EdgeSum.apply(grad, b, a_rows, b_rows, a.shape)  # type: ignore[no-untyped-call]
        if ctx.needs_input_grad[1]:
            to_b = _EdgeSum.apply(grad, a, b_rows, a_rows, b.shape)  # type: ignore[no-untyped-call]
        return to_a, to_b, None, None


class _EdgeSum(torch.autograd.Function):
    """The autograd function of `edge_sum`; it sums over heads if the output has a single head."""

    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, b: Tensor, to_rows: Tensor, b_rows: Tensor, shape: Sequence[int]
    ) -> Tensor:
        ctx.save_for_backward(weights, b, to_rows, b_rows)
        out = b.new_zeros(shape)
        for part in _chunks(to_rows.numel(), weights.shape[1] * b.shape[2]):
            terms = weights[part, :, None] * b[b_rows[part]]
            if terms.shape[1] != shape[1]:
                terms = terms.sum(1, keepdim=True)
            out.index_add_(0, to_rows[part], terms)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, b, to_rows, b_rows = ctx.saved_tensors
        to_weights = to_b = None
        if ctx.needs_input_grad[0]:
            to_weights = edge_dot(grad, b, to_rows, b_rows)
        if ctx.needs_input_grad[1]:
            to_b = _EdgeSum.apply(weights, grad, b_rows, to_rows, b.shape)  # type: ignore[no-untyped-call]
        return to_weights, to_b, None, None, None
