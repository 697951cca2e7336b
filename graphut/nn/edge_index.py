"""For code on PyG: edges as a `(2, E)` tensor, and layers that are called with features first."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graphut.attention import EdgeLayout, layout_from_edges


def from_edge_index(
    edge_index: Tensor, num_nodes: int | tuple[int, int], *, batch: Tensor | None = None
) -> EdgeLayout:
    """Return the edge layout of PyG's `edge_index`.

    Messages flow from source to target, PyG's default: node `edge_index[1, e]` attends to node
    `edge_index[0, e]`. No edge is added; use `torch_geometric.utils.add_self_loops` for loops.

    Parameters
    ----------
    edge_index : Tensor
        `(2, E)` int64. What belongs to edges, such as an `edge_bias`, keeps this order.
    num_nodes : int or pair of int
        Number of nodes; `(sources, targets)` of a bipartite graph.
    batch : Tensor, optional
        `(num_nodes,)` which graph of a batch each node belongs to, as PyG's loaders give it.

    Raises
    ------
    TypeError, ValueError
        If `edge_index` is no such tensor or names a node that does not exist, or `batch` is not
        sorted, or given with a bipartite graph.

    Examples
    --------
    >>> layout = from_edge_index(torch.tensor([[0, 1, 2], [1, 1, 0]]), num_nodes=3)
    >>> layout.in_degrees
    tensor([1, 2, 0])
    """
    if not isinstance(edge_index, Tensor) or edge_index.dtype != torch.int64:
        kind = edge_index.dtype if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise TypeError(f"edge_index must be an int64 tensor, got {kind}")
    if edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ValueError(f"edge_index must be (2, E), got shape {tuple(edge_index.shape)}")
    num_src, num_dst = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
    lengths = None
    if batch is not None:
        if isinstance(num_nodes, tuple):
            raise ValueError(
                "batch says nothing about the two sides of a bipartite graph; leave it out"
            )
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


class EdgeIndexLayer(nn.Module):
    """A layer that is called as PyG's are, `(x, edge_index)`, around one of graphut's.

    The edges are sorted at every call. Where they stay the same, make the layout once with
    `from_edge_index` and call the inner layer with it.

    Parameters
    ----------
    layer : Module
        `MultiHeadAttention`, `UniversalTransformerStep`, `AdaptiveRecurrence`, or any module that
        takes a layout and features.

    Examples
    --------
    >>> from graphut.nn import MultiHeadAttention
    >>> layer = EdgeIndexLayer(MultiHeadAttention(8, num_heads=2))
    >>> edge_index = torch.tensor([[0, 1, 2, 0], [0, 1, 2, 1]])
    >>> layer(torch.randn(3, 8), edge_index).shape
    torch.Size([3, 8])
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Tensor,
        *,
        batch: Tensor | None = None,
        **options: Any,
    ) -> Any:
        """Call the inner layer.

        Parameters
        ----------
        x : Tensor or pair of Tensor
            `(N, F)`, or the features of sources and of targets.
        edge_index : Tensor
            `(2, E)`, see `from_edge_index`.
        batch : Tensor, optional
            `(N,)` which graph of a batch each node belongs to.
        **options
            Of the inner layer: `edge_bias=`, `get_attention=`, and so on.
        """
        num_nodes = (len(x[0]), len(x[1])) if isinstance(x, tuple) else len(x)
        return self.layer(from_edge_index(edge_index, num_nodes, batch=batch), x, **options)
