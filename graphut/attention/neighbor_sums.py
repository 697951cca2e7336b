"""Weighted sums of neighbours' features: one sparse product, of all rows or of a frontier."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.nn.functional import embedding_bag

from graphut.attention.edge_sums import edge_dot
from graphut.attention.kernel_library import sort_edges
from graphut.attention.layout import EdgeLayout
from graphut.attention.ragged import ragged_arange, starts
from graphut.attention.tracing import leave_program

# In float32 a sum over an edge costs an eighth of the selection of the edge for a frontier, so
# larger frontiers are selected from the sums of all rows.
_FAST = 8


def neighbor_sum(
    layout: EdgeLayout,
    feat: Tensor,
    weight: Tensor | None = None,
    frontier: Tensor | None = None,
) -> Tensor:
    r"""Return :math:`\sum_{j \in E(i)} w_{ij} x_j` of each destination, or of those in `frontier`.

    Parameters
    ----------
    layout : EdgeLayout
        The edges.
    feat : Tensor
        `(N_src, d)`, the features :math:`x`.
    weight : Tensor, optional
        `(E,)`, the weight of each edge in canonical order; 1 by default.
    frontier : Tensor, optional
        `(A,)` int64, ids of destinations.

    Returns
    -------
    Tensor
        `(A, d)` in float32 or wider; 0 for a destination without in-edges.

    Examples
    --------
    >>> from graphut.attention import layout_from_edges
    >>> ends = torch.tensor([0, 1, 2]), torch.tensor([1, 1, 0])
    >>> layout = layout_from_edges(*ends, num_src=3, num_dst=3)
    >>> neighbor_sum(layout, torch.tensor([[1.0], [2.0], [4.0]]))
    tensor([[4.],
            [3.],
            [0.]])
    """
    if is_compiling():
        return leave_program(neighbor_sum, layout, feat, weight, frontier)
    wide = torch.promote_types(feat.dtype, torch.float32)
    edges, chosen = layout.cached(_all_edges), None
    if frontier is not None and wide == torch.float32 and _FAST * len(frontier) > layout.num_dst:
        frontier, chosen = None, frontier
    if frontier is not None:
        edges, places = _select(edges, layout, frontier)
        weight = None if weight is None else weight[places]
        if not feat.is_contiguous():  # the product would copy all rows
            feat = feat.index_select(0, edges.sources)
            edges.num_sources = len(feat)
            edges.sources = torch.arange(edges.num_sources, device=feat.device)
    feat, weight = feat.to(wide), None if weight is None else weight.to(wide)
    out: Tensor = _NeighborSum.apply(feat, weight, edges)  # type: ignore[no-untyped-call]
    return out if chosen is None else out.index_select(0, chosen)


@dataclass
class _Edges:
    """Edges sorted by row: the start of each row, and the row and the source of each edge."""

    starts: Tensor
    rows: Tensor
    sources: Tensor
    num_sources: int

    @property
    def num_rows(self) -> int:
        return len(self.starts)

    @cached_property
    def transposed(self) -> tuple[_Edges, Tensor]:
        """The edges sorted by source, with rows and sources exchanged, and their order."""
        cuts, ends, order = sort_edges(self.rows, self.sources, self.num_rows, self.num_sources)
        return _Edges(cuts[:-1], self.sources[order], ends, self.num_rows), order


def _all_edges(layout: EdgeLayout) -> _Edges:
    starts, rows = layout.row_starts[:-1], layout.destinations()
    return _Edges(starts, rows, layout.sources(), layout.num_src)


def _select(edges: _Edges, layout: EdgeLayout, frontier: Tensor) -> tuple[_Edges, Tensor]:
    """Return the in-edges of the destinations `frontier`, and their places among all edges."""
    degrees = layout.in_degrees[frontier]
    rows, offsets = ragged_arange(degrees)
    places = edges.starts[frontier][rows] + offsets
    return _Edges(starts(degrees), rows, edges.sources[places], edges.num_sources), places


class _NeighborSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, feat: Tensor, weight: Tensor | None, edges: _Edges) -> Tensor:
        ctx.save_for_backward(feat, weight)
        ctx.edges = edges
        if not edges.num_rows or not len(edges.sources):
            return feat.new_zeros(edges.num_rows, feat.shape[1])
        # The fastest gather with sums in torch: no tensor has the features of all edges.
        options: Any = {"mode": "sum", "per_sample_weights": weight}
        return embedding_bag(edges.sources, feat.contiguous(), edges.starts, **options)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (feat, weight), edges = ctx.saved_tensors, ctx.edges
        to_feat = to_weight = None
        if ctx.needs_input_grad[0]:
            turned, order = edges.transposed
            by_source = None if weight is None else weight[order]
            to_feat = _NeighborSum.apply(grad, by_source, turned)  # type: ignore[no-untyped-call]
        if ctx.needs_input_grad[1]:
            dots = edge_dot(grad[:, None], feat[:, None], edges.rows, edges.sources)
            to_weight = dots[:, 0]
        return to_feat, to_weight, None
