"""The backend "native": edge attention by the compiled kernels."""

from __future__ import annotations

from torch import Tensor

from graphut.attention.backend import AttentionResult, Backend
from graphut.attention.call import AttentionCall
from graphut.attention.layout import EdgeLayout, IntervalLayout
from graphut.attention.library import DTYPES, is_built
from graphut.attention.native.ops import (
    EdgeAttention,
    Edges,
    Gradients,
    ScalarArgs,
    Tables,
    check_one_gradient,
    edge_attention_op,
    forward,
    write_gradients,
)
from graphut.attention.sorting import sort_edges
from graphut.attention.transforms import is_intercepted


def native_attention(call: AttentionCall) -> AttentionResult:
    """Compute attention in blocks of rows on interval layouts, row by row on others."""
    tables, edges, scalars = _arguments(call)
    if is_intercepted():
        return AttentionResult(edge_attention_op(*tables, *edges, *scalars)[0])
    out = EdgeAttention.apply(*tables, edges, scalars)  # type: ignore[no-untyped-call]
    return AttentionResult(out)


def forward_in_place(call: AttentionCall) -> tuple[Tensor, Tensor]:
    """Run the forward kernel without autograd; return output and softmax statistics."""
    return forward(*_arguments(call))


def backward_in_place(
    call: AttentionCall,
    out_grad: Tensor,
    out: Tensor,
    softmax: Tensor,
    key_grad: Tensor,
    value_grad: Tensor,
) -> Tensor:
    """Return the gradient of the query; add the gradients of key and value to their buffers."""
    check_one_gradient(out_grad)
    sums = Gradients(key_grad, value_grad, softmax.new_empty(0))
    return write_gradients(out_grad, out, softmax, *_arguments(call), sums, add=True)


def _arguments(call: AttentionCall) -> tuple[Tables, Edges, ScalarArgs]:
    edges = call.layout.cached(edge_tensors)
    bias = None if call.edge_bias is None else call.edge_bias.to(call.score_dtype)
    tables = Tables(call.query, call.key, call.value, call.frontier, bias)
    assert isinstance(call.seed, int)  # only a GPU has seeds in tensors
    return tables, edges, ScalarArgs(call.scale, call.dropout, call.seed, "fastest")


def edge_tensors(layout: EdgeLayout) -> Edges:
    """Return the index tensors of a layout, as the compiled kernels need them."""
    none, starts = layout.row_starts.new_empty(0), layout.row_starts
    ids = none if layout.edge_ids is None else layout.edge_ids
    if isinstance(layout, IntervalLayout) and layout.is_monotone:
        found = (layout.lo, layout.hi, none, starts, ids, none, none, none)
    else:
        sources = layout.sources()
        by_source = sort_edges(layout.destinations(), sources, layout.num_dst, layout.num_src)
        found = (starts, starts[1:], sources, starts, ids, *by_source)
    return Edges(*(index.contiguous() for index in found))


NATIVE = Backend(
    name="native",
    attend=native_attention,
    devices=("cpu",),
    dtypes=tuple(DTYPES),
    returns_weights=False,
    is_installed=is_built,
    auto_rank=lambda call: 0,
)
