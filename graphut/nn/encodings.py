"""Position encodings for general graphs: Laplacian eigenvectors and random walks."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from graphut._dgl import DGLGraph, dgl


def laplacian_encoding(graph: DGLGraph, size: int) -> Tensor:
    """Return eigenvectors of the normalised Laplacian with the smallest non-trivial eigenvalues.

    From "Benchmarking Graph Neural Networks" (arXiv 2003.00982), computed by `dgl.lap_pe`. Add a
    linear map of them to the node features. The sign of an eigenvector is arbitrary and random in
    DGL; here the entry with the largest magnitude is positive. The graphs of a batch are handled
    one by one, in time cubic in their nodes.

    Parameters
    ----------
    graph : DGLGraph
        A homogeneous graph that has the reverse of every edge (`dgl.to_bidirected`).
    size : int
        Number of eigenvectors. Columns that a small graph cannot fill are zero.

    Returns
    -------
    Tensor
        `(N, size)` float32.

    Raises
    ------
    ValueError
        If `size` is not positive, an edge has no reverse, or the graph is heterogeneous.

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
                "the graph has an edge without its reverse, which a Laplacian needs; use "
                "dgl.to_bidirected(graph)"
            )
        vectors: Tensor = dgl.lap_pe(part, size, padding=True)
        top = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
        return vectors * torch.where(top < 0, -1.0, 1.0)

    return _by_graph(graph, size, encode)


def random_walk_encoding(graph: DGLGraph, size: int) -> Tensor:
    """Return the probability that a random walk is back at its start after 1, ..., `size` steps.

    From "Graph Neural Networks with Learnable Structural and Positional Representations" (arXiv
    2110.07875), computed by `dgl.random_walk_pe`. Add a linear map of them to the node features.
    The graphs of a batch are handled one by one, in time cubic in their nodes.

    Parameters
    ----------
    graph : DGLGraph
        A homogeneous graph.
    size : int
        Number of steps.

    Returns
    -------
    Tensor
        `(N, size)` float32.

    Raises
    ------
    ValueError
        If `size` is not positive, or the graph is heterogeneous.

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
            # DGL wraps a read-only NumPy array in a tensor; `clone` makes it writable.
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            probabilities: Tensor = dgl.random_walk_pe(part, size)
        return probabilities.clone()

    return _by_graph(graph, size, encode)


def _by_graph(graph: DGLGraph, size: int, encode: Callable[[DGLGraph], Tensor]) -> Tensor:
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    if not graph.is_homogeneous:
        raise ValueError("the graph has several types of nodes or edges; pass a homogeneous graph")
    parts = dgl.unbatch(graph)
    return torch.cat([encode(p) if p.num_nodes() else torch.zeros(0, size) for p in parts])
