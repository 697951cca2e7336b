"""Layers that replace attention: their base class, and sums and means over in-neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.nn.functional import embedding_bag

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.checks import check_feat
from graphut.attention.edge_sums import edge_dot
from graphut.attention.kernel_library import sort_edges
from graphut.attention.ragged import ragged_arange, starts
from graphut.attention.tracing import leave_program
from graphut.nn.checks import check_same_nodes, destination_rows

# In float32, selecting an edge for a frontier takes as long as summing eight. If the frontier has
# more than an eighth of the nodes, the sums of all rows are computed, and its rows selected.
_SELECTION_COST = 8


class Aggregation(nn.Module):
    """Base class of layers that replace attention in `UniversalTransformerStep`.

    A subclass sets `in_feats`, `out_feats` and the numbers of operations, and defines `attend`.
    """

    key_value_flops = 0
    reads_types = False  # whether `project` takes the layout and the nodes
    in_feats: tuple[int, int]
    out_feats: int

    def project(self, feat_src: Tensor, *types: Any) -> Tensor:
        """Return the rows that sources store for out-neighbours: their features by default."""
        return feat_src

    def forward(
        self,
        graph: DGLGraph | EdgeLayout,
        feat: Tensor,
        *,
        stored: Tensor | None = None,
        **options: Any,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return the output for `feat`, `(N_src, feats)`; options as in `attend`.

        The destinations are the first sources, as in a block of DGL: an `EdgeLayout` with more
        sources than destinations is read as such a block, and one with fewer is refused.

        With `stored`, which a recurrence has projected, `feat` has the rows of the destinations.
        The result is a pair, as of `MultiHeadAttention`, if there are attention weights.
        """
        layout: Any = graph
        rows = feat
        if stored is None:
            check_same_nodes(graph)
            layout = as_layout(graph)
            check_feat(feat, "source", layout.num_src, self.in_feats[0], self)
            rows = destination_rows(layout, feat, options.get("frontier"))
            stored = self.project(feat, layout) if self.reads_types else self.project(feat)
        out, weights = self.attend(layout, rows, stored, **options)
        return out if weights is None else (out, weights)

    def attend(
        self, layout: EdgeLayout, rows: Tensor, stored: Tensor, **options: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output for the destinations in the option `frontier` (None: all).

        The output is `(A, feats)`. The second result is the attention weights, or None. `rows`,
        `(A, feats)`, are the states of these destinations, and `stored` is what `project` returned
        of all sources.
        """
        raise NotImplementedError

    def refuse(self, name: str, options: dict[str, Any]) -> None:
        """Raise `ValueError` if an option is given that the layer does not have."""
        for option, value in options.items():
            if value is not None and value is not False:
                raise ValueError(f"{name}, as the attention of a step, does not support {option}")


class NeighborMean(Aggregation):
    r"""Add a map of a node to the mean over its in-neighbours, by one sparse product.

    .. math::
        \mathrm{out}_i = W y_i + b + \frac{1}{|E(i)|} \sum_{j \in E(i)} U y_j

    This is GraphSAGE (arXiv 1706.02216) with the mean, as PyG's `SAGEConv(feats, feats)`. The sum
    is 0 for a node without in-edges.

    Examples
    --------
    >>> import torch
    >>> from graphut.nn import from_edge_index
    >>> layout = from_edge_index(torch.tensor([[0, 1], [2, 2]]), 3)
    >>> NeighborMean(8)(layout, torch.randn(3, 8)).shape
    torch.Size([3, 8])
    """

    def __init__(self, feats: int) -> None:
        super().__init__()
        self.in_feats, self.out_feats, self.edge_flops = (feats, feats), feats, feats
        self.node_flops = self.key_value_flops = 2 * feats * feats
        self.own, self.neighbors = nn.Linear(feats, feats), nn.Linear(feats, feats, bias=False)

    def reset_parameters(self) -> None:
        """Draw new parameters of both maps."""
        self.own.reset_parameters()
        self.neighbors.reset_parameters()

    def project(self, feat_src: Tensor, *types: Any) -> Tensor:
        mapped: Tensor = self.neighbors(feat_src)
        return mapped

    def attend(
        self,
        layout: EdgeLayout,
        rows: Tensor,
        stored: Tensor,
        *,
        frontier: Tensor | None = None,
        **others: Any,
    ) -> tuple[Tensor, None]:
        self.refuse("NeighborMean (without heads=4 or conv=GCNConv(...))", others)
        return self.own(rows) + neighbor_mean(layout, stored, frontier).to(rows.dtype), None


def neighbor_mean(layout: EdgeLayout, feat: Tensor, frontier: Tensor | None = None) -> Tensor:
    """Return the mean over the in-edges of each destination, as `neighbor_sum` returns the sum."""
    total = neighbor_sum(layout, feat, frontier=frontier)
    degrees = layout.in_degrees if frontier is None else layout.in_degrees[frontier]
    return total / degrees.clamp_min(1)[:, None].to(total.dtype)


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
    if (
        frontier is not None
        and wide == torch.float32
        and _SELECTION_COST * len(frontier) > layout.num_dst
    ):
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
    return _Edges(layout.row_starts[:-1], layout.destinations(), layout.sources(), layout.num_src)


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


def edge_list(layout: EdgeLayout) -> tuple[Tensor, Tensor]:
    """Return the source and the destination of each edge, in the order of the edges."""
    target, source, edge = layout.in_edges()
    by_id = [torch.empty_like(ends).index_copy(0, edge, ends) for ends in (source, target)]
    return by_id[0], by_id[1]


def edges_with_self_loops(layout: EdgeLayout) -> tuple[Tensor, Tensor, Tensor]:
    """Return sources and destinations with one self-loop at each destination, and old edge ids.

    The self-loops are last. Those that the graph does not have get the id `E`.
    """
    source, target = edge_list(layout)
    order = torch.arange(len(source), device=source.device)
    is_loop = source == target
    loops = torch.arange(layout.num_dst, device=source.device)
    of_loops = torch.full_like(loops, len(source))
    of_loops[source[is_loop]] = order[is_loop]
    source, target = (torch.cat([ends[~is_loop], loops]) for ends in (source, target))
    return source, target, torch.cat([order[~is_loop], of_loops])
