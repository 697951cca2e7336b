"""Layers that replace attention: their base class, and the mean over in-neighbours."""

from typing import Any

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.checks import check_feat
from graphut.attention.neighbor_sums import neighbor_sum
from graphut.nn.checks import check_same_nodes, destination_rows


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
                raise ValueError(f"{name} in the place of attention does not support {option}")


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
        self.refuse("NeighborMean, the step without heads=4 or conv=GCNConv(...),", others)
        return self.own(rows) + neighbor_mean(layout, stored, frontier).to(rows.dtype), None


def neighbor_mean(layout: EdgeLayout, feat: Tensor, frontier: Tensor | None = None) -> Tensor:
    """Return the mean over the in-edges of each destination, as `neighbor_sum` returns the sum."""
    total = neighbor_sum(layout, feat, frontier=frontier)
    degrees = layout.in_degrees if frontier is None else layout.in_degrees[frontier]
    return total / degrees.clamp_min(1)[:, None].to(total.dtype)


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
