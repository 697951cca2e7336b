"""From edge layouts to one batched DGL graph that keeps them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from graphut._dgl import DGLGraph, dgl
from graphut.attention.graphs import keep_layout
from graphut.attention.layout import EdgeLayout

EdgeType = tuple[str, str, str]

_CANONICAL = torch.empty(0, dtype=torch.int64)  # no edge ids: DGL numbers the edges as they come


def graph_from_layouts(layouts: Mapping[EdgeType, EdgeLayout]) -> DGLGraph:
    """One batched graph with an edge type for each layout, edges in canonical order.

    Parameters
    ----------
    layouts : dict
        From `(source type, edge type, destination type)` to a layout in canonical order.
        Layouts that share a node type agree on its lengths.

    Returns
    -------
    DGLGraph
        With `batch_num_nodes` and `batch_num_edges`, and the layouts kept
        (`graphut.attention.as_layout` finds them).

    Examples
    --------
    >>> from graphut.topology import Causal
    >>> graph_from_layouts({("token", "sees", "token"): Causal().layout([3])}).num_edges("sees")
    6
    """
    edges, lengths = {}, {}
    for etype, layout in layouts.items():
        edges[etype] = ("csc", (layout.row_starts, layout.sources(), _CANONICAL))
        lengths[etype[0]], lengths[etype[2]] = layout.src_lengths, layout.dst_lengths
    graph = dgl.heterograph(edges, {ntype: int(n.sum()) for ntype, n in lengths.items()})
    graph.set_batch_num_nodes(lengths)
    graph.set_batch_num_edges({etype: _edges_per_sentence(layouts[etype]) for etype in layouts})
    for etype, layout in layouts.items():
        keep_layout(graph, etype, layout)
    return graph


def _edges_per_sentence(layout: EdgeLayout) -> Tensor:
    until = layout.row_starts[layout.dst_lengths.cumsum(0)]
    return until.diff(prepend=until.new_zeros(1))
