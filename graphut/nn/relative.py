"""Relative positions: attention scores that depend on the signed distance of an edge."""

import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout
from graphut.attention.edge_sums import edge_dot
from graphut.attention.tracing import is_tracing, outside_autocast
from graphut.nn.checks import check_same_nodes
from graphut.nn.signals import coordinate_signal


class RelativePositions(nn.Module):
    """A term of attention scores for distances (arXiv 1901.02860, section 3.3)."""

    def __init__(self, feats: int, num_heads: int, head_feats: int) -> None:
        super().__init__()
        # The vectors u and v, which are added to the queries of keys and of distances.
        self.bias = nn.Parameter(torch.empty(2, num_heads, head_feats))
        self.distance = nn.Linear(feats, num_heads * head_feats, bias=False)

    def reset_parameters(self) -> None:
        """Draw the linear map from a Xavier uniform distribution, and set the biases to zero."""
        nn.init.xavier_uniform_(self.distance.weight)
        nn.init.zeros_(self.bias)

    def forward(
        self, layout: EdgeLayout, query: Tensor, frontier: Tensor | None, edge_distance: Tensor
    ) -> Tensor:
        """Return what distances, `(E,)` by edge id, add to the scores, `(E, num_heads)`.

        `query`, `(A, num_heads, head_feats)`, are the queries, with `v` added, of `frontier`.
        """
        row, _, edge = layout.in_edges(frontier)
        values, index = edge_distance[edge], torch.arange(len(row), device=row.device)
        if len(row) and not (values.is_floating_point() or is_tracing()):
            low, high = (int(end) for end in values.aminmax())
            if high - low < len(row):  # map each distance once
                values, index = torch.arange(low, high + 1, device=row.device), values - low
        with outside_autocast(query.device.type):
            query = query.to(torch.promote_types(query.dtype, torch.float32))
            query = query * query.shape[2] ** -0.5
            weight = self.distance.weight
            mapped = self.distance(coordinate_signal(values, weight.shape[1], weight.dtype))
            mapped = mapped.unflatten(1, query.shape[1:]).to(query.dtype)
            if len(query) * len(values) <= 4 * len(row):  # most distances occur at most nodes
                table = torch.einsum("ahd,rhd->har", query, mapped).flatten(1)
                scores = table.index_select(1, row * len(values) + index).T
            else:
                scores = edge_dot(query, mapped, row, index)
        if frontier is None and layout.edge_ids is None:
            return scores
        return scores.new_zeros(layout.num_edges, scores.shape[1]).index_copy(0, edge, scores)


def edge_distances(graph: DGLGraph | EdgeLayout, positions: Tensor) -> Tensor:
    """Return the position of the destination minus that of the source for each edge, `(E,)`.

    `positions`, `(N_src,)`, are those of the sources, which begin with the destinations. Raise
    `ValueError` if they have another shape.

    Examples
    --------
    >>> from graphut.topology import Causal
    >>> edge_distances(Causal().layout([3]), torch.arange(3))
    tensor([0, 1, 0, 2, 1, 0])
    """
    check_same_nodes(graph)
    layout = as_layout(graph)
    if positions.shape != (layout.num_src,):
        raise ValueError(
            f"relative positions must be ({layout.num_src},), one for each source node, got shape "
            f"{tuple(positions.shape)}"
        )
    row, source, edge = layout.in_edges()
    distance = positions[row] - positions[source]
    return torch.empty_like(distance).index_copy(0, edge, distance)
