"""Calls of convolutions as in PyG, `conv(x, edge_index)`, and as in DGL, `conv(graph, x)`."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling

from graphut._dgl import DGLGraph
from graphut.attention import EdgeLayout, as_layout, layout_from_edges
from graphut.attention.checks import check_finite, check_index, check_range, check_tensor
from graphut.attention.tracing import outside_inference
from graphut.nn.checks import check_same_nodes
from graphut.nn.ponder import Ponder


class Recorded(nn.Module):
    """A layer with the record of its last call, which is not copied or saved with the layer."""

    ponder: Ponder  # set by a call

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "ponder"}


class GraphCall(Recorded):
    """Base class of layers that are called as `conv(x, edge_index)` or as `conv(graph, x)`.

    The sorted edges of the last `edge_index` are kept for calls with the same tensor.
    """

    _last: tuple[Tensor, Any, EdgeLayout] | None = None  # an `edge_index`, its state and layout

    def read(self, x: Any, edge_index: Any) -> tuple[EdgeLayout, Tensor]:
        """Return the edges and the features of a call with one set of nodes."""
        is_graph = not isinstance(x, Tensor) and isinstance(x, (EdgeLayout, DGLGraph))
        graph, x = (x, edge_index) if is_graph else (edge_index, x)
        if isinstance(x, (tuple, dict)):
            raise TypeError(
                f"{type(self).__name__} repeats its step on one set of nodes, got a "
                f"{type(x).__name__} of features: use HeteroAdaptiveConv for several node types; "
                "with a block of DGL, pass the features of its sources"
            )
        if not isinstance(x, Tensor) or x.dim() != 2:
            check_rows("x", x)
        check_finite(x=x)
        if not is_graph:
            return self.layout_of(graph, len(x)), x
        check_same_nodes(graph)
        return as_layout(graph), x

    def layout_of(self, edge_index: Tensor, nodes: int | tuple[int, int]) -> EdgeLayout:
        """Return the edges of PyG's `edge_index`, sorted once for several calls."""
        is_plain = type(edge_index) is Tensor and not edge_index.is_inference()
        if not is_plain or is_compiling():
            return from_edge_index(edge_index, nodes)
        state, last = (edge_index._version, nodes), self._last  # which other threads may set, too
        if last is None or last[0] is not edge_index or last[1] != state:
            with outside_inference():
                self._last = last = edge_index, state, from_edge_index(edge_index, nodes)
        return last[2]

    def __getstate__(self) -> dict[str, Any]:
        return {name: x for name, x in super().__getstate__().items() if name != "_last"}


def check_rows(name: str, feat: Tensor) -> None:
    """Raise an error unless the argument `name` is a matrix with one row for each node."""
    check_tensor(feat, name)
    if feat.dim() != 2:
        raise ValueError(
            f"{name} must be (N, F), one row for each node, got shape {tuple(feat.shape)}"
        )


def from_edge_index(
    edge_index: Tensor, num_nodes: int | tuple[int, int], *, batch: Tensor | None = None
) -> EdgeLayout:
    """Return the edges of PyG's `edge_index` as an `EdgeLayout`, which layers take as a graph.

    Node `edge_index[1, e]` attends to node `edge_index[0, e]`. No self-loops are added; use
    `torch_geometric.utils.add_self_loops` for that.

    Parameters
    ----------
    edge_index : Tensor
        `(2, E)` int64. Arguments with a row for each edge, such as `edge_bias`, have the same
        order.
    num_nodes : int or pair of int
        A pair is for a bipartite graph: the numbers of sources and of targets.
    batch : Tensor, optional
        `(num_nodes,)` int64, the graph of each node, sorted, as PyG's loaders return it.

    Raises
    ------
    TypeError, ValueError
        If `edge_index` is not `(2, E)` int64 or refers to a missing node, or if `batch` does not
        fit.

    Examples
    --------
    >>> layout = from_edge_index(torch.tensor([[0, 1, 2], [1, 1, 0]]), num_nodes=3)
    >>> layout.in_degrees
    tensor([1, 2, 0])
    """
    num_src, num_dst = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
    edge_index = check_edge_index(edge_index, num_src, num_dst)
    lengths = None
    if batch is not None:
        if isinstance(num_nodes, tuple):
            raise ValueError("batch must be omitted for a bipartite graph")
        check_index("batch", batch)
        falls = int((batch.diff(prepend=batch.new_zeros(1)) < 0).sum())
        if len(batch) != num_nodes or falls:
            raise ValueError(
                f"batch must be sorted, at least 0, with an entry for each of the {num_nodes} "
                f"nodes; got {len(batch)} entries, {falls} of them below the one before or 0"
            )
        lengths = torch.bincount(batch)
    sizes: Any = {"num_src": num_src, "num_dst": num_dst}
    return layout_from_edges(*edge_index, **sizes, src_lengths=lengths, dst_lengths=lengths)


def check_edge_index(
    edge_index: Tensor, num_src: int, num_dst: int, name: str = "edge_index"
) -> Tensor:
    """Return the ends of all edges, `(2, E)` int64, as a plain tensor; `EdgeIndex` wraps one.

    Raise an error if an edge refers to a node that does not exist.
    """
    if hasattr(edge_index, "as_tensor"):
        edge_index = edge_index.as_tensor()
    if getattr(edge_index, "layout", torch.strided) not in (torch.strided, torch.jagged):
        raise TypeError(
            f"{name} is a sparse matrix: pass torch_geometric.utils.to_edge_index(adj)[0], and "
            "with .flip(0) for a transposed one, adj_t"
        )
    check_tensor(edge_index, name)
    if edge_index.dtype != torch.int64:
        raise TypeError(
            f"{name} must be an int64 tensor, got {edge_index.dtype}; pass it after the features, "
            "and convert it with .long()"
        )
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        turned = f"; did you mean {name}.T?" if edge_index.shape[1:] == (2,) else ""
        raise ValueError(f"{name} must be (2, E), got shape {tuple(edge_index.shape)}{turned}")
    check_range(name, edge_index[0], num_src, "source node", "x has only {} row(s)")
    check_range(name, edge_index[1], num_dst, "target node", "x has only {} row(s)")
    return edge_index
