"""The weights of geometric attention, by the compiled kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphut.attention.geometric import geometric_bias
from graphut.attention.layout import EdgeLayout
from graphut.attention.library import Call, Library, Rows, compiled
from graphut.attention.native.attention import edge_tensors
from graphut.attention.native.ops import (
    ScalarArgs,
    Tables,
    gradient_room,
    make_call,
    trim_gradients,
)
from graphut.attention.transforms import in_transform, is_intercepted


def fast_geometric_bias(
    layout: EdgeLayout, query: Tensor, key: Tensor, direction: Tensor, frontier: Tensor | None
) -> Tensor:
    """Return what `geometric_bias` does, by the kernels where they read the tables.

    Examples
    --------
    >>> from graphut.topology import Complete
    >>> one, none = torch.ones(3, 1, 1), torch.zeros(3, 1, 2)
    >>> fast_geometric_bias(Complete().layout([3]), one, one, none, None).view(3, 3).exp()[0]
    tensor([0.0000, 0.7311, 0.1966])
    """
    given, library = (query, key, direction), compiled()
    if library is None or is_intercepted() or in_transform() or not all(map(library.reads, given)):
        return geometric_bias(layout, *given, frontier)
    if frontier is not None:
        frontier = frontier.contiguous()  # the kernels read its numbers one after the other
    return _GeometricBias.apply(*given, frontier, layout, library)  # type: ignore[no-untyped-call]


class _GeometricBias(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        direction: Tensor,
        frontier: Tensor | None,
        layout: EdgeLayout,
        library: Library,
    ) -> Tensor:
        ctx.save_for_backward(query, key, direction, frontier)
        ctx.layout, ctx.library = layout, library
        bias = query.new_zeros(layout.num_edges, query.shape[1])
        call = _call(layout, query, key, frontier)
        library.geometric(call, direction.contiguous(), bias)
        return bias

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, direction, frontier = ctx.saved_tensors
        if torch.is_grad_enabled():  # a derivative of this gradient may be asked for
            needed = ctx.needs_input_grad[:3]
            given = (query, key, direction)
            asked = [table for table, need in zip(given, needed, strict=True) if need]
            bias = geometric_bias(ctx.layout, *given, frontier)
            found = iter(torch.autograd.grad(bias, asked, grad, create_graph=True))
            return (*(next(found) if need else None for need in needed), None, None, None)
        query_grad, direction_grad = (
            torch.empty_like(table, memory_format=torch.contiguous_format)
            for table in (query, direction)
        )
        key_grad = gradient_room(key)
        call = _call(ctx.layout, query, key, frontier)
        call.query_grad, call.key_grad = Rows.of(query_grad), Rows.of(key_grad)
        tables = (direction.contiguous(), grad.contiguous(), direction_grad)
        ctx.library.geometric_backward(call, *tables)
        return query_grad, trim_gradients(key_grad, key), direction_grad, None, None, None


def _call(layout: EdgeLayout, query: Tensor, key: Tensor, frontier: Tensor | None) -> Call:
    tables = Tables(query, key, key, frontier, None, None)
    return make_call(tables, layout.cached(edge_tensors), ScalarArgs(1.0, 0.0, 0, "rows"))
