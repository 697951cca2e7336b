"""Position encodings of graphs that are no sequences: Laplacian eigenvectors, random walks."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from graphut._dgl import DGLGraph, dgl


def laplacian_encoding(graph: DGLGraph, size: int) -> Tensor:
    """Return eigenvectors of the normalised Laplacian with the smallest non-trivial eigenvalues.

    From "Benchmarking Graph Neural Networks" (arXiv 2003.00982), by `dgl.lap_pe`. Add a linear map
    of them to the features of nodes. An eigenvector has no sign of its own: here its largest
    entry is positive, where DGL draws the sign. Each graph of a batch is taken on its own, and
    work grows with the cube of its nodes.

    Parameters
    ----------
    graph : DGLGraph
        Homogeneous, every edge with its reverse (`dgl.to_bidirected`).
    size : int
        Number of eigenvectors; those that a small graph does not have are zero.

    Returns
    -------
    Tensor
        `(N, size)` float32.

    Raises
    ------
    ValueError
        If `size` is not positive, an edge has no reverse, or there are several types of nodes or
        edges.

    Examples
    --------
    >>> path = dgl.to_bidirected(dgl.graph(([0, 1], [1, 2])))
    >>> laplacian_encoding(path, 2)[:, 1].abs()
    tensor([0.5000, 0.7071, 0.5000])
    """

    def encode(part: DGLGraph) -> Tensor:
        sources, targets = part.edges()
        if not bool(part.has_edges_between(targets, sources).all()):
            raise ValueError(
                "the graph has an edge without its reverse, and a Laplacian needs both; use "
                "dgl.to_bidirected(graph)"
            )
        vectors: Tensor = dgl.lap_pe(part, size, padding=True)
        top = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
        return vectors * torch.where(top < 0, -1.0, 1.0)

    return _by_graph(graph, size, encode)


def random_walk_encoding(graph: DGLGraph, size: int) -> Tensor:
    """Return the chance that a random walk is at its first node after 1, 2, ..., `size` steps.

    From "Graph Neural Networks with Learnable Structural and Positional Representations" (arXiv
    2110.07875), by `dgl.random_walk_pe`. Add a linear map of them to the features of nodes. Each
    graph of a batch is taken on its own, and work grows with the cube of its nodes.

    Parameters
    ----------
    graph : DGLGraph
        Homogeneous.
    size : int
        Number of steps.

    Returns
    -------
    Tensor
        `(N, size)` float32.

    Raises
    ------
    ValueError
        If `size` is not positive, or there are several types of nodes or edges.

    Examples
    --------
    >>> path = dgl.to_bidirected(dgl.graph(([0, 1], [1, 2])))
    >>> random_walk_encoding(path, 2)
    tensor([[0.0000, 0.5000],
            [0.0000, 1.0000],
            [0.0000, 0.5000]])
    """

    def encode(part: DGLGraph) -> Tensor:
        with warnings.catch_warnings():
            # DGL hands torch an array of NumPy's that must not be written to; it is copied below.
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            chances: Tensor = dgl.random_walk_pe(part, size)
        return chances.clone()

    return _by_graph(graph, size, encode)


def _by_graph(graph: DGLGraph, size: int, encode: Callable[[DGLGraph], Tensor]) -> Tensor:
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    if not graph.is_homogeneous:
        raise ValueError(
            "the graph has several types of nodes or edges; give one with a single one"
        )
    parts = dgl.unbatch(graph)
    return torch.cat([encode(p) if p.num_nodes() else torch.zeros(0, size) for p in parts])
