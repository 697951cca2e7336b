"""Edge layouts from the `edge_index` tensors of PyG."""

from __future__ import annotations

import torch
from torch import Tensor

from graphut.attention import EdgeLayout, layout_from_edges


def from_edge_index(
    edge_index: Tensor, num_nodes: int | tuple[int, int], *, batch: Tensor | None = None
) -> EdgeLayout:
    """Return the edge layout of an `edge_index` of PyG.

    Messages flow from source to target, as is PyG's default: node `edge_index[1, e]` attends to
    node `edge_index[0, e]`. No self-loops are added; `torch_geometric.utils.add_self_loops` adds
    them.

    Parameters
    ----------
    edge_index : Tensor
        `(2, E)` int64. Arguments with a row for each edge, such as `edge_bias`, have the same
        order.
    num_nodes : int or pair of int
        Number of nodes, or the numbers of sources and of targets of a bipartite graph.
    batch : Tensor, optional
        `(num_nodes,)`, the graph of a batch to which each node belongs, as PyG's loaders return it.

    Raises
    ------
    TypeError
        If `edge_index` is not an int64 tensor.
    ValueError
        If `edge_index` has another shape or refers to a node that does not exist, or if `batch` is
        not sorted, has another length, or is given for a bipartite graph.

    Examples
    --------
    >>> layout = from_edge_index(torch.tensor([[0, 1, 2], [1, 1, 0]]), num_nodes=3)
    >>> layout.in_degrees
    tensor([1, 2, 0])
    """
    num_src, num_dst = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
    _check_edge_index(edge_index, num_src, num_dst)
    lengths = None
    if batch is not None:
        if isinstance(num_nodes, tuple):
            raise ValueError("batch must be omitted for a bipartite graph")
        if batch.shape != (num_nodes,) or bool((batch[1:] < batch[:-1]).any()):
            raise ValueError(
                f"batch must be sorted and have one entry for each of the {num_nodes} nodes, "
                f"got shape {tuple(batch.shape)}"
            )
        lengths = torch.bincount(batch)
    return layout_from_edges(
        edge_index[0],
        edge_index[1],
        num_src=num_src,
        num_dst=num_dst,
        src_lengths=lengths,
        dst_lengths=lengths,
    )


def layout_for(
    x: Tensor | tuple[Tensor, Tensor], edge_index: Tensor, batch: Tensor | None = None
) -> EdgeLayout:
    """Return the edge layout for the arguments of a PyG convolution.

    `x` is `(N, F)`, or a pair with the features of sources and of targets.
    """
    for rows in x if isinstance(x, tuple) else (x,):
        if rows.dim() != 2:
            raise ValueError(
                f"x must be (N, F), one row for each node, got shape {tuple(rows.shape)}"
            )
    num_nodes = (len(x[0]), len(x[1])) if isinstance(x, tuple) else len(x)
    return from_edge_index(edge_index, num_nodes, batch=batch)


def _check_edge_index(edge_index: Tensor, num_src: int, num_dst: int) -> None:
    if not isinstance(edge_index, Tensor) or edge_index.dtype != torch.int64:
        kind = edge_index.dtype if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise TypeError(f"edge_index must be an int64 tensor, got {kind}")
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ValueError(f"edge_index must be (2, E), got shape {tuple(edge_index.shape)}")
    for side, ids, rows in (("source", edge_index[0], num_src), ("target", edge_index[1], num_dst)):
        outside = (ids < 0) | (ids >= rows)
        if bool(outside.any()):
            raise ValueError(
                f"edge_index refers to {side} node {int(ids[outside][0])}, but x has only "
                f"{rows} row{'' if rows == 1 else 's'}"
            )
