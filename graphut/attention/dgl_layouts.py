"""The edge layout of a DGL graph, computed once and kept with the graph."""

from typing import Any

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention.layout import EdgeLayout, layout_from_edges
from graphut.attention.tracing import outside_inference

# The attribute in which the object of a graph's edges keeps their layouts. When its edges change, a
# graph gets a new object. DGL saves such an object without our attribute.
_KEY = "_graphut_layouts"


def as_layout(graph: DGLGraph | EdgeLayout, etype: Any = None) -> EdgeLayout:
    """Return the edge layout of a graph.

    Parameters
    ----------
    graph : DGLGraph or EdgeLayout
        A layout is returned unchanged. The layout of a DGL graph is computed once and kept with
        the graph until its edges or its batch sizes change.
    etype : str or tuple of str, optional
        The edge type of a heterograph.

    Raises
    ------
    TypeError, ValueError
        If `graph` has another type, if it has several edge types and `etype` is not given, or if
        its batch sizes do not add up to its number of nodes.

    Examples
    --------
    >>> from graphut._dgl import dgl
    >>> as_layout(dgl.graph(([0, 1], [1, 1]))).in_degrees
    tensor([0, 2])
    """
    if isinstance(graph, EdgeLayout):
        return graph
    if not isinstance(graph, DGLGraph):
        raise TypeError(
            f"expected a DGLGraph or an EdgeLayout, got {type(graph).__name__}: a topology has "
            "layout(lengths), graphut.topology.parse(spec) is a topology, a networkx graph goes "
            "through dgl.from_networkx, and an edge_index through graphut.nn.LayerAsConv"
        )
    if etype is None and len(graph.etypes) > 1:
        is_unique = len({*graph.etypes}) == len(graph.etypes)
        kinds = graph.etypes if is_unique else graph.canonical_etypes
        raise ValueError(
            f"the graph has several edge types ({', '.join(map(repr, kinds))}): choose one, such "
            f"as graphut.attention.as_layout(graph, {kinds[0]!r}), or use HeteroAdaptiveConv"
        )
    canonical = graph.to_canonical_etype(etype)
    layouts = _layouts_of(graph)
    if canonical not in layouts:
        with outside_inference():
            layout = _read(graph, canonical)
        keep_layout(graph, canonical, layout)
        return layout
    return layouts[canonical]


def keep_layout(graph: DGLGraph, etype: Any, layout: EdgeLayout) -> None:
    """Store the layout of the edges of type `etype` in a graph; `as_layout` then returns it."""
    _layouts_of(graph)[graph.to_canonical_etype(etype)] = layout


def _layouts_of(graph: DGLGraph) -> dict[Any, EdgeLayout]:
    # Setting the batch sizes replaces their tensors.
    sizes = [*(graph._batch_num_nodes or {}).values()]
    kept, layouts = getattr(graph._graph, _KEY, (None, {}))
    if kept is None or [*map(id, kept)] != [*map(id, sizes)]:
        layouts = {}
        setattr(graph._graph, _KEY, (sizes, layouts))
    return layouts


def _read(graph: DGLGraph, etype: tuple[str, str, str]) -> EdgeLayout:
    source, _, target = etype
    src, dst = _edges(graph, etype)
    sources = targets = None
    if not graph.is_block:  # both sides of a block can have one name, and it has no batch sizes
        sources, targets = _batch_num_nodes(graph, source), _batch_num_nodes(graph, target)
    return layout_from_edges(
        src.long(),
        dst.long(),
        num_src=graph.num_src_nodes(source),
        num_dst=graph.num_dst_nodes(target),
        src_lengths=sources,
        dst_lengths=targets,
    )


def _edges(graph: DGLGraph, etype: tuple[str, str, str]) -> tuple[Tensor, Tensor]:
    """Return the source and the destination of each edge, in the order of edge ids."""
    has_coo = any("coo" in names for names in graph.formats().values())  # others know one order
    src, dst, edge = graph.edges("all", etype=etype, order="eid" if has_coo else "srcdst")
    src_by_id, dst_by_id = torch.empty_like(src), torch.empty_like(dst)
    return src_by_id.index_copy_(0, edge.long(), src), dst_by_id.index_copy_(0, edge.long(), dst)


def _batch_num_nodes(graph: DGLGraph, ntype: str) -> Tensor:
    # Without batch sizes, batch_num_nodes() would set only one of the two.
    if graph._batch_num_nodes is None:
        return torch.tensor([graph.num_nodes(ntype)], device=graph.device)
    counts: Tensor = graph.batch_num_nodes(ntype).long()
    return counts
