"""The backend "native": edge attention by the compiled kernels."""

from typing import Any

import torch
from torch import Tensor

from graphut.attention.backend import AttentionCall, AttentionResult, Backend
from graphut.attention.first_derivatives import refuse_second_derivatives
from graphut.attention.kernel_library import DTYPES, is_built, sort_edges
from graphut.attention.layout import EdgeLayout, IntervalLayout
from graphut.attention.native.interval_parts import divide
from graphut.attention.native.ops import (
    Edges,
    Part,
    ScalarArgs,
    Tables,
    backward,
    forward,
)


def native_attention(call: AttentionCall) -> AttentionResult:
    """Compute attention by the fastest kernel: for blocks of destinations, or for one at a time."""
    bias = None if call.edge_bias is None else call.edge_bias.to(call.score_dtype)
    tables = Tables(call.query, call.key, call.value, call.frontier, bias)
    assert isinstance(call.seed, int)  # only a GPU has seeds in tensors
    scalars = ScalarArgs(call.scale, call.dropout, call.seed)
    return AttentionResult(EdgeAttention.apply(*tables, call.layout, scalars))  # type: ignore[no-untyped-call]


def parts_of(layout: EdgeLayout, gradients: bool) -> list[Part]:
    """Divide the edges of a layout into parts, each for one call of a kernel; often only one."""
    return layout.cached(divide) or [Part(edge_tensors(layout, gradients))]


def edge_tensors(layout: EdgeLayout, gradients: bool) -> Edges:
    """Return the index tensors of a layout, in the form that the compiled kernels read.

    Without `gradients`, listed edges are not sorted by source.
    """
    none, starts = layout.row_starts.new_empty(0), layout.row_starts
    ids = none if layout.edge_ids is None else layout.edge_ids
    if isinstance(layout, IntervalLayout) and layout.is_monotone:
        tensors = (layout.lo, layout.hi, none, starts, ids, none, none, none)
    else:
        sources, by_source = layout.sources(), (none, none, none)
        if gradients:
            by_source = sort_edges(layout.destinations(), sources, layout.num_dst, layout.num_src)
        tensors = (starts, starts[1:], sources, starts, ids, *by_source)
    return Edges(*(index.contiguous() for index in tensors))


class EdgeAttention(torch.autograd.Function):
    """Attention by the compiled kernels, with gradients, as a function of autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        frontier: Tensor | None,
        bias: Tensor | None,
        layout: EdgeLayout,
        scalars: ScalarArgs,
    ) -> Tensor:
        tables = Tables(query, key, value, frontier, bias)
        out, softmax = forward(tables, layout.cached(parts_of, True), scalars)
        ctx.save_for_backward(*tables, out, softmax)
        ctx.layout, ctx.scalars = layout, scalars
        return out

    @staticmethod
    def backward(ctx: Any, out_grad: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        *saved, out, softmax = ctx.saved_tensors
        tables, parts = Tables(*saved), ctx.layout.cached(parts_of, True)
        query, key, value, bias = backward(out_grad, out, softmax, tables, parts, ctx.scalars)
        return query, key, value, None, bias, None, None


NATIVE = Backend(
    name="native",
    attend=native_attention,
    devices=("cpu",),
    dtypes=tuple(DTYPES),
    returns_weights=False,
    is_installed=is_built,
)
