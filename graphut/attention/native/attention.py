"""Edge attention by the compiled kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphut.attention.call import AttentionCall
from graphut.attention.layout import EdgeLayout, IntervalLayout
from graphut.attention.native.library import DTYPES
from graphut.attention.native.ops import add_gradients, attend, edge_attention_op
from graphut.attention.segments import segment_attention


def native_attention(call: AttentionCall) -> tuple[Tensor, Tensor | None]:
    """Blocks of rows where they share runs of sources, row by row elsewhere."""
    if call.query.dtype not in DTYPES:
        raise TypeError(
            f"the native backend computes float32, float64 and bfloat16, got {call.query.dtype}"
        )
    if call.need_weights:
        return segment_attention(call)
    if not _in_blocks(call):
        call = call.with_bias_by_edge()  # row by row, a bias is looked up by edge
    return edge_attention_op(call.query, call.key, call.value, *_arguments(call))[0], None


def _in_blocks(call: AttentionCall) -> bool:
    """Whether rows share runs of sources."""
    return call.layout.derive(native_edges)[2].numel() == 0


def read(call: AttentionCall) -> tuple[Tensor, Tensor]:
    """Output, and the logarithm of each row's sum of exponentials; autograd does not see it."""
    return attend(call.query, call.key, call.value, *_arguments(call))


def read_backward(
    call: AttentionCall,
    out_grad: Tensor,
    out: Tensor,
    lse: Tensor,
    key_grad: Tensor,
    value_grad: Tensor,
) -> Tensor:
    """The query's gradient; adds to `key_grad` and `value_grad`. For calls without a bias."""
    return add_gradients(
        *(out_grad, out, lse, call.query, call.key, call.value, *_arguments(call)),
        key_grad=key_grad,
        value_grad=value_grad,
        bias_grad=lse.new_empty(0),
        table_grad=lse.new_empty(0),
    )


def _arguments(call: AttentionCall) -> tuple[Any, ...]:
    edges = call.layout.derive(native_edges)
    bias, table = (
        None if x is None else x.to(call.score_dtype) for x in (call.edge_bias, call.relative_bias)
    )
    kernel = "fastest" if _in_blocks(call) else "rows"
    numbers = call.scale, call.dropout, call.seed, kernel
    return call.frontier, bias, table, *numbers, *edges


def native_edges(layout: EdgeLayout) -> list[Tensor]:
    """The index tensors of a layout, in the order of `ops.EDGES`."""
    return [index.contiguous() for index in _index_tensors(layout)]


def _index_tensors(layout: EdgeLayout) -> list[Tensor]:
    none = layout.row_starts.new_empty(0)
    ids = none if layout.edge_ids is None else layout.edge_ids
    if isinstance(layout, IntervalLayout) and layout.never_falls:
        return [layout.lo, layout.hi, none, layout.row_starts, ids, none, none, none]
    starts, sources = layout.row_starts, layout.sources()
    edge = torch.argsort(sources, stable=True)
    node = torch.repeat_interleave(layout.in_degrees, output_size=layout.num_edges)[edge]
    # Where the edges from each source begin, without a size that depends on what they are.
    counts = starts.new_zeros(layout.num_src + 1)
    first = counts.index_add(0, sources + 1, torch.ones_like(sources)).cumsum(0)
    return [starts, starts[1:], sources, starts, ids, first, node, edge]
