"""The backend "native": edge attention by the compiled kernels."""

from __future__ import annotations

from torch import Tensor

from graphut.attention.backend import AttentionResult, Backend, InPlaceKernels
from graphut.attention.call import AttentionCall
from graphut.attention.checks import check_features
from graphut.attention.layout import EdgeLayout, IntervalLayout
from graphut.attention.library import DTYPES, is_built
from graphut.attention.native.ops import (
    EdgeAttention,
    Edges,
    Gradients,
    ScalarArgs,
    Tables,
    attend,
    check_one_gradient,
    edge_attention_op,
    trim_gradients,
    write_gradients,
    zero_gradients,
)
from graphut.attention.sorting import sort_edges
from graphut.attention.transforms import is_intercepted


def native_attention(call: AttentionCall) -> AttentionResult:
    """Attend in blocks of rows where they share intervals of sources, row by row elsewhere."""
    if not _in_blocks(call):
        call = call.with_bias_by_edge()  # row by row, a bias is looked up by edge
    tables, edges, scalars = _arguments(call)
    if is_intercepted():
        return AttentionResult(edge_attention_op(*tables, *edges, *scalars)[0])
    out = EdgeAttention.apply(*tables, edges, scalars)  # type: ignore[no-untyped-call]
    return AttentionResult(out)


def _in_blocks(call: AttentionCall) -> bool:
    """Return whether rows share intervals of sources."""
    return call.layout.cached(edge_tensors).indices.numel() == 0


def _forward(call: AttentionCall) -> tuple[Tensor, Tensor]:
    out, softmax, finite = attend(*_arguments(call))
    if not finite:
        check_features(call)
    return out, softmax


def _backward(
    call: AttentionCall,
    out_grad: Tensor,
    out: Tensor,
    softmax: Tensor,
    key_grad: Tensor,
    value_grad: Tensor,
) -> Tensor:
    check_one_gradient(out_grad)
    none = softmax.new_empty(0)
    sums = Gradients(key_grad, value_grad, none, none)
    return write_gradients(out_grad, out, softmax, *_arguments(call), sums, add=True)


def _arguments(call: AttentionCall) -> tuple[Tables, Edges, ScalarArgs]:
    edges, wide = call.layout.cached(edge_tensors), call.score_dtype
    bias, table = (None if x is None else x.to(wide) for x in (call.edge_bias, call.relative_bias))
    tables = Tables(call.query, call.key, call.value, call.frontier, bias, table)
    kernel = "fastest" if _in_blocks(call) else "rows"
    assert isinstance(call.seed, int)  # one on a device is for other backends
    return tables, edges, ScalarArgs(call.scale, call.dropout, call.seed, kernel)


def edge_tensors(layout: EdgeLayout) -> Edges:
    """Return the index tensors of a layout for the kernels."""
    return Edges(*(index.contiguous() for index in _edge_tensors(layout)))


def _edge_tensors(layout: EdgeLayout) -> Edges:
    none = layout.row_starts.new_empty(0)
    ids = none if layout.edge_ids is None else layout.edge_ids
    if isinstance(layout, IntervalLayout) and layout.is_monotone:
        return Edges(layout.lo, layout.hi, none, layout.row_starts, ids, none, none, none)
    starts, sources = layout.row_starts, layout.sources()
    ends = layout.destinations(), sources
    first, node, edge = sort_edges(*ends, layout.num_dst, layout.num_src)
    return Edges(starts, starts[1:], sources, starts, ids, first, node, edge)


NATIVE = Backend(
    name="native",
    attend=native_attention,
    devices=("cpu",),
    dtypes=tuple(DTYPES),
    returns_weights=False,
    is_installed=is_built,
    auto_rank=lambda call: 0,
    in_place=InPlaceKernels(_forward, _backward, zero_gradients, trim_gradients),
)
