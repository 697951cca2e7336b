"""Random graphs by families: trees, and the graphs of the SALSA-CLRS benchmark."""

from __future__ import annotations

from collections.abc import Callable
from math import log

import networkx
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Delaunay

Edges = NDArray[np.int64]
"""`(E, 2)`, the two ends of each edge; each edge comes once, in one direction."""

Family = Callable[[int, np.random.Generator], Edges]


def _tree(parents: Edges) -> Edges:
    """Return the edges of a tree from the parents of the nodes 1, 2, ..."""
    return np.stack([parents, np.arange(1, len(parents) + 1)], 1)


def _edges_of(graph: networkx.Graph) -> Edges:
    return np.array(graph.edges, np.int64).reshape(-1, 2)


def _seed(random: np.random.Generator) -> int:
    return int(random.integers(2**31))


def _erdos_renyi(nodes: int, random: np.random.Generator) -> Edges:
    """Draw a connected Erdős–Rényi graph, of log(n) to 3 log(n) neighbours a node on average."""
    share = min(1.0, random.uniform(1, 3) * log(nodes) / nodes)
    while True:
        graph = networkx.fast_gnp_random_graph(nodes, share, seed=_seed(random))
        if networkx.is_connected(graph):
            return _edges_of(graph)


def _watts_strogatz(nodes: int, random: np.random.Generator) -> Edges:
    """Draw a connected ring of 4, 6 or 8 neighbours each, with 5% to 20% of its edges rewired."""
    neighbours, share = min(int(random.choice([4, 6, 8])), nodes), random.uniform(0.05, 0.2)
    return _edges_of(
        networkx.connected_watts_strogatz_graph(nodes, neighbours, share, seed=_seed(random))
    )


def _delaunay(nodes: int, random: np.random.Generator) -> Edges:
    """Draw points in a square, and return the edges of their Delaunay triangulation."""
    if nodes < 4:  # too few for scipy
        return np.stack(np.triu_indices(nodes, 1), 1)
    corners = Delaunay(random.random((nodes, 2))).simplices
    sides = np.sort(np.concatenate([corners[:, pair] for pair in ([0, 1], [1, 2], [0, 2])]))
    return np.unique(sides, axis=0).astype(np.int64)


TREES: dict[str, Family] = {
    "path": lambda nodes, random: _tree(np.arange(nodes - 1)),
    # Long, with twigs: the parent of a node is one of the three before it.
    "near": lambda nodes, random: _tree(
        np.arange(nodes - 1) - random.integers(0, np.minimum(np.arange(1, nodes), 3))
    ),
    # One of all labelled trees, each as likely as any other.
    "uniform": lambda nodes, random: _edges_of(
        networkx.random_labeled_tree(nodes, seed=_seed(random))
    ),
    # Bushy: the parent of a node is any of those before it.
    "recursive": lambda nodes, random: _tree(random.integers(0, np.arange(1, nodes))),
    # A binary tree whose levels are full, but for the last.
    "balanced": lambda nodes, random: _tree(np.arange(nodes - 1) // 2),
    # A path with a leaf at each node of it.
    "caterpillar": lambda nodes, random: _tree(np.arange(nodes - 1) // 2 * 2),
}
"""The families of trees, by name."""

# The last three are drawn as those of SALSA-CLRS (arXiv 2309.12253) are by its code.
FAMILIES = TREES | {
    "erdos-renyi": _erdos_renyi,
    "watts-strogatz": _watts_strogatz,
    "delaunay": _delaunay,
}
"""All families, by name: each a function of a number of nodes and a generator of numbers."""
