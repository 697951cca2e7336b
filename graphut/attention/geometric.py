"""Geometric attention: each destination looks for the nearest source that matches."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from graphut.attention.edge_sums import edge_dot
from graphut.attention.layout import EdgeLayout
from graphut.attention.ragged import ragged_arange, starts

_EDGES = 1 << 20  # computed at a time: sums in float64 take memory


def geometric_bias(
    layout: EdgeLayout, query: Tensor, key: Tensor, direction: Tensor, frontier: Tensor | None
) -> Tensor:
    r"""Return the logarithms of the weights of geometric attention, by edge id, `(E, H)`.

    With :math:`S_{ij}` the sources that are nearer to :math:`i` than :math:`j` is, of two as near
    the one to the right (arXiv 2110.07732, Eqs. 5 to 7):

    .. math::
        p_{ij} = \sigma(q_i \cdot k_j + d_{ij}), \qquad
        a_{ij} = p_{ij} \prod_{k \in S_{ij}} (1 - p_{ik}), \qquad a_{ii} = 0

    As scores of a softmax they make weights that sum to one. Sums are in float64: there are as many
    terms as edges.

    Parameters
    ----------
    layout : EdgeLayout
        Edges among the nodes of sentences, in the order of their ids.
    query, key : Tensor
        `(A, H, D)` and `(N, H, D)`, float32 or wider; the queries are scaled.
    direction : Tensor
        `(A, H, 2)`, what is added to the scores of the sources to the left, and to the right.
    frontier : Tensor or None
        `(A,)` ids of the destinations; the entries of other edges are 0.

    Examples
    --------
    >>> from graphut.topology import Complete
    >>> one, none = torch.ones(3, 1, 1), torch.zeros(3, 1, 2)
    >>> geometric_bias(Complete().layout([3]), one, one, none, None).view(3, 3).exp()[0]
    tensor([0.0000, 0.7311, 0.1966])
    """
    nodes = torch.arange(layout.num_dst, device=query.device) if frontier is None else frontier
    longest = int(layout.in_degrees.max()) if nodes.numel() else 1
    rows = torch.arange(len(nodes), device=query.device).split(max(1, _EDGES // max(1, longest)))
    parts = [_log_weights(layout, query[r], key, direction[r], nodes[r]) for r in rows]
    weight, edge = (torch.cat(part) for part in zip(*parts, strict=True))
    return weight.new_zeros(layout.num_edges, weight.shape[1]).index_copy(0, edge, weight)


def _log_weights(
    layout: EdgeLayout, query: Tensor, key: Tensor, direction: Tensor, nodes: Tensor
) -> tuple[Tensor, Tensor]:
    """Return logarithms `(e, H)` of the weights of the in-edges of some nodes, and their ids."""
    degrees = layout.in_degrees[nodes]
    row, offset = ragged_arange(degrees)
    place = layout.row_starts[nodes][row] + offset
    source, edge = (of_edges[place] for of_edges in layout.cached(_nearest_first))
    node = nodes[row]
    itself, side = (source == node)[:, None], 2 * row + (source > node)
    toward = direction.transpose(1, 2).flatten(0, 1).index_select(0, side)
    score = edge_dot(query, key, row, source) + toward
    missed = logsigmoid(-score).masked_fill(itself, 0.0)
    total = missed.cumsum(0, dtype=torch.float64)
    start = (total - missed).index_select(0, starts(degrees)[row])
    # The logarithm of p is that of 1 - p, plus the score.
    weight = score + (total - start).to(score.dtype)
    return weight.masked_fill(itself, -torch.inf), edge


def _nearest_first(layout: EdgeLayout) -> tuple[Tensor, Tensor]:
    """Return source and id of every edge, by destination, and of each the nearest first."""
    row, source, edge = layout.in_edges()
    distance = 2 * (source - row).abs() + (source < row)
    order = (row * (2 * layout.num_src) + distance).argsort(stable=True)
    return source[order], edge[order]
