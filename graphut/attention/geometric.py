"""Geometric attention: each destination attends to the nearest source that matches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from graphut.attention.edge_sums import edge_dot
from graphut.attention.layout import EdgeLayout
from graphut.attention.library import Call, Library, Rows, compiled
from graphut.attention.native.attention import edge_tensors
from graphut.attention.native.ops import (
    ScalarArgs,
    Tables,
    gradient_buffer,
    make_call,
    trim_gradient,
)
from graphut.attention.ragged import ragged_arange, starts
from graphut.attention.transforms import in_transform, is_intercepted

_EDGES = 1 << 20  # computed at a time, because sums in float64 take memory


def geometric_bias(
    layout: EdgeLayout, query: Tensor, key: Tensor, direction: Tensor, frontier: Tensor | None
) -> Tensor:
    r"""Return the logarithm of each edge's weight in geometric attention, `(E, H)`, by edge id.

    Let :math:`S_{ij}` be the sources that are nearer to :math:`i` than :math:`j`. Of two sources at
    the same distance, the one to the right counts as nearer. With
    :math:`p_{ij} = \sigma(q_i \cdot k_j + d_{ij})` (arXiv 2110.07732, Eqs. 5 to 7),

    .. math::
        a_{ij} = p_{ij} \prod_{k \in S_{ij}} (1 - p_{ik}), \qquad a_{ii} = 0.

    A softmax of the logarithms normalizes these weights. Sums are in float64, because they have as
    many terms as there are edges. The compiled kernels compute them if they support the tensors.

    Query `(A, H, D)`, already scaled, and key `(N, H, D)` are float32 or wider. `direction`
    `(A, H, 2)` holds :math:`d_{ij}` for sources to the left and to the right. The entries of edges
    into nodes outside of `frontier` are 0.
    """
    given, library = (query, key, direction), compiled()
    if library is None or is_intercepted() or in_transform() or not all(map(library.reads, given)):
        return plain_geometric_bias(layout, *given, frontier)
    if frontier is not None:
        frontier = frontier.contiguous()  # the kernels read it without a stride
    return _GeometricBias.apply(*given, frontier, layout, library)  # type: ignore[no-untyped-call]


def plain_geometric_bias(
    layout: EdgeLayout, query: Tensor, key: Tensor, direction: Tensor, frontier: Tensor | None
) -> Tensor:
    """Compute `geometric_bias` in plain torch, without the compiled kernels."""
    nodes = torch.arange(layout.num_dst, device=query.device) if frontier is None else frontier
    longest = int(layout.in_degrees.max()) if nodes.numel() else 1
    rows = torch.arange(len(nodes), device=query.device).split(max(1, _EDGES // max(1, longest)))
    parts = [_log_weights(layout, query[r], key, direction[r], nodes[r]) for r in rows]
    weight, edge = (torch.cat(part) for part in zip(*parts, strict=True))
    return weight.new_zeros(layout.num_edges, weight.shape[1]).index_copy(0, edge, weight)


def _log_weights(
    layout: EdgeLayout, query: Tensor, key: Tensor, direction: Tensor, nodes: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the log-weights `(e, H)` of the in-edges of `nodes`, and the edge ids `(e,)`."""
    degrees = layout.in_degrees[nodes]
    row, offset = ragged_arange(degrees)
    place = layout.row_starts[nodes][row] + offset
    source, edge = (by_edge[place] for by_edge in layout.cached(_nearest_first))
    node = nodes[row]
    itself, side = (source == node)[:, None], 2 * row + (source > node)
    toward = direction.transpose(1, 2).flatten(0, 1).index_select(0, side)
    score = edge_dot(query, key, row, source) + toward
    missed = logsigmoid(-score).masked_fill(itself, 0.0)
    total = missed.cumsum(0, dtype=torch.float64)
    start = (total - missed).index_select(0, starts(degrees)[row])
    # log p = log(1 - p) + score
    weight = score + (total - start).to(score.dtype)
    return weight.masked_fill(itself, -torch.inf), edge


def _nearest_first(layout: EdgeLayout) -> tuple[Tensor, Tensor]:
    """Return the source and the id of every edge, sorted by destination and then by distance."""
    row, source, edge = layout.in_edges()
    distance = 2 * (source - row).abs() + (source < row)
    order = (row * (2 * layout.num_src) + distance).argsort(stable=True)
    return source[order], edge[order]


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
        library.geometric(_call(layout, query, key, frontier), direction.contiguous(), bias)
        return bias

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, direction, frontier = ctx.saved_tensors
        if torch.is_grad_enabled():  # second derivatives may follow
            needed = ctx.needs_input_grad[:3]
            given = (query, key, direction)
            asked = [table for table, need in zip(given, needed, strict=True) if need]
            bias = plain_geometric_bias(ctx.layout, *given, frontier)
            found = iter(torch.autograd.grad(bias, asked, grad, create_graph=True))
            return (*(next(found) if need else None for need in needed), None, None, None)
        query_grad, direction_grad = (
            torch.empty_like(table, memory_format=torch.contiguous_format)
            for table in (query, direction)
        )
        key_grad = gradient_buffer(key)
        call = _call(ctx.layout, query, key, frontier)
        call.query_grad, call.key_grad = Rows.of(query_grad), Rows.of(key_grad)
        tables = (direction.contiguous(), grad.contiguous(), direction_grad)
        ctx.library.geometric_backward(call, *tables)
        return query_grad, trim_gradient(key_grad, key), direction_grad, None, None, None


def _call(layout: EdgeLayout, query: Tensor, key: Tensor, frontier: Tensor | None) -> Call:
    tables = Tables(query, key, key, frontier, None)
    return make_call(tables, layout.cached(edge_tensors), ScalarArgs(1.0, 0.0, 0, "rows"))
