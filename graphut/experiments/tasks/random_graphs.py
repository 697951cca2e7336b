"""Random graphs: trees, grids, roads and families of benchmarks; unions, and searches in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Edges = NDArray[np.int64]
"""`(E, 2)`, the two ends of each edge; each edge is listed once, in one direction."""

Family = Callable[[int, np.random.Generator], Edges]
"""A function from a number of nodes and a random generator to the edges of a graph."""


def _tree(parents: Edges) -> Edges:
    """Return the edges of a tree with root 0, given the parents of the nodes 1, 2, ..."""
    return np.stack([parents, np.arange(1, len(parents) + 1)], 1)


def _networkx_graph(
    generator: str, random: np.random.Generator, *arguments: Any, connected: bool = False
) -> Edges:
    """Draw the edges of a graph with a generator of networkx, again until it is `connected`."""
    import networkx  # here, because the command line starts without it

    while True:
        graph = getattr(networkx, generator)(*arguments, seed=int(random.integers(2**31)))
        if not connected or networkx.is_connected(graph):
            return np.array(graph.edges, np.int64).reshape(-1, 2)


def _erdos_renyi(nodes: int, random: np.random.Generator, like: int = 0) -> Edges:
    """Draw a connected Erdős–Rényi graph with a mean degree of log(n) to 3 log(n).

    Here, n is `nodes`. With `like`, an edge is as probable as in a graph with `like` nodes.
    """
    like = like or nodes
    probability = min(1.0, random.uniform(1, 3) * log(like) / like)
    return _networkx_graph("fast_gnp_random_graph", random, nodes, probability, connected=True)


def _watts_strogatz(nodes: int, random: np.random.Generator) -> Edges:
    """Draw a connected ring with 4, 6 or 8 neighbours per node and 5% to 20% rewired edges."""
    neighbours, share = min(int(random.choice([4, 6, 8])), nodes), random.uniform(0.05, 0.2)
    return _networkx_graph("connected_watts_strogatz_graph", random, nodes, neighbours, share)


def _delaunay(nodes: int, random: np.random.Generator) -> Edges:
    """Draw points in a square and return the edges of their Delaunay triangulation."""
    from scipy.spatial import Delaunay

    if nodes < 4:  # too few for scipy
        return np.stack(np.triu_indices(nodes, 1), 1)
    corners = Delaunay(random.random((nodes, 2))).simplices
    sides = np.sort(np.concatenate([corners[:, pair] for pair in ([0, 1], [1, 2], [0, 2])]))
    return np.unique(sides, axis=0).astype(np.int64)


def _grid(nodes: int, random: np.random.Generator) -> Edges:
    """Return the edges of a square grid; its last row may be shorter."""
    node, width = np.arange(nodes), isqrt(nodes - 1) + 1
    across = node[(node % width < width - 1) & (node < nodes - 1)]
    down = node[: max(nodes - width, 0)]
    return np.concatenate([np.stack([across, across + 1], 1), np.stack([down, down + width], 1)])


def _cycle(nodes: int, random: np.random.Generator) -> Edges:
    """Return the edges of a cycle, or the only edge between two nodes."""
    node = np.arange(nodes if nodes > 2 else 1)
    return np.stack([node, (node + 1) % nodes], 1)


def _road(nodes: int, random: np.random.Generator) -> Edges:
    """Draw a sparse planar graph, like a road network.

    It has the edges of a minimum spanning tree of a Delaunay triangulation with random edge
    weights, and up to `0.15 * nodes` further edges of the triangulation.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    edges = _delaunay(nodes, random)
    weights = coo_array((1 + random.random(len(edges)), (edges[:, 0], edges[:, 1])), (nodes,) * 2)
    tree = np.stack(minimum_spanning_tree(weights.tocsr()).nonzero(), 1).astype(np.int64)
    is_extra = ~np.isin(edges @ [nodes, 1], tree @ [nodes, 1])
    return np.concatenate([tree, random.permutation(edges[is_extra])[: int(0.15 * nodes)]])


def _maze(nodes: int, random: np.random.Generator) -> Edges:
    """Draw a maze by depth-first search on a square grid, as in arXiv 2106.04537."""
    neighbours: list[list[int]] = [[] for _ in range(nodes)]
    for one, other in _grid(nodes, random).tolist():
        neighbours[one].append(other)
        neighbours[other].append(one)
    way = [int(random.integers(nodes))]
    seen, edges = {*way}, []
    while way:
        free = [cell for cell in neighbours[way[-1]] if cell not in seen]
        if free:
            cell = free[int(random.integers(len(free)))]
            edges.append((way[-1], cell))
            seen.add(cell)
            way.append(cell)
        else:
            way.pop()
    return np.array(edges, np.int64)


def cut_apart(edges: Edges, nodes: int, random: np.random.Generator) -> Edges:
    """Return the edges except those between the nodes near a random centre and the other nodes.

    Nodes are near up to a random distance from the centre. The near nodes are about 30% to 70% of
    all nodes, or more if many nodes have the same distance.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    matrix = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), (nodes,) * 2).tocsr()
    centre = int(random.integers(nodes))
    distance = dijkstra(matrix, directed=False, indices=centre, unweighted=True)
    is_inside = distance <= int(np.quantile(distance, random.uniform(0.3, 0.7)))
    return edges[is_inside[edges[:, 0]] == is_inside[edges[:, 1]]]


TREES: dict[str, Family] = {
    "path": lambda nodes, random: _tree(np.arange(nodes - 1)),
    # Long, with short branches: the parent of a node is one of the three nodes before it.
    "near": lambda nodes, random: _tree(
        np.arange(nodes - 1) - random.integers(0, np.minimum(np.arange(1, nodes), 3))
    ),
    # A uniform draw from all labelled trees.
    "uniform": lambda nodes, random: _networkx_graph("random_labeled_tree", random, nodes),
    # A random recursive tree: the parent of a node is any of the nodes before it.
    "recursive": lambda nodes, random: _tree(random.integers(0, np.arange(1, nodes))),
    # A binary tree: all levels but the last are full.
    "balanced": lambda nodes, random: _tree(np.arange(nodes - 1) // 2),
    # A path with a leaf at each of its nodes.
    "caterpillar": lambda nodes, random: _tree(np.arange(nodes - 1) // 2 * 2),
    "maze": _maze,
}
"""The families of trees, by name."""
# A node without edges computes the same as a graph of one node.
UNCONNECTED: dict[str, Family] = {"isolated": lambda nodes, random: np.zeros((0, 2), np.int64)}
"""Families whose nodes are not connected, by name."""

# "erdos-renyi", "watts-strogatz" and "delaunay" graphs are drawn as by the code of SALSA-CLRS
# (arXiv 2309.12253).
FAMILIES = TREES | {
    "erdos-renyi": _erdos_renyi,
    # The training graphs of SALSA-CLRS have at most 16 nodes.
    "erdos-renyi-16": lambda nodes, random: _erdos_renyi(nodes, random, like=16),
    "watts-strogatz": _watts_strogatz,
    "delaunay": _delaunay,
    "grid": _grid,
    "cycle": _cycle,
    "road": _road,
}
"""All families of connected graphs, by name."""


@dataclass(frozen=True)
class GraphUnion:
    """Several graphs as one disjoint graph; the nodes of each graph have consecutive indices."""

    sizes: Numbers  # (graphs,), nodes of each graph
    edges: Numbers  # (2, E): the edges of all graphs, and then a self-loop for each node

    @classmethod
    def of(
        cls, sizes: Numbers, parts: Sequence[Edges], random: np.random.Generator, directed: bool
    ) -> GraphUnion:
        """Return the union of graphs, with the nodes of each graph in random order.

        `parts` has the edges of each graph; unless `directed`, add them in both directions.
        """
        first = sizes.cumsum() - sizes
        order = np.concatenate([random.permutation(size) for size in sizes])
        num_edges = np.array([len(part) for part in parts])
        start = np.repeat(first, num_edges)[:, None]
        ends = (order[np.concatenate(parts) + start] + start).T
        loops = np.arange(sizes.sum())
        back = ends[::-1, : 0 if directed else None]
        return cls(sizes, np.concatenate([ends, back, np.stack([loops, loops])], 1))

    @property
    def first(self) -> Numbers:
        """The index of the first node of each graph, `(graphs,)`."""
        return self.sizes.cumsum() - self.sizes

    @property
    def graph(self) -> Numbers:
        """The index of the graph that each node belongs to, `(N,)`."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def draw(self, random: np.random.Generator) -> Numbers:
        """Draw one random node of each graph, and return their indices."""
        return self.first + random.integers(0, self.sizes)

    def search(
        self, starts: Numbers, weights: NDArray[Any] | None = None
    ) -> tuple[NDArray[np.float64], Numbers]:
        """Return each node's distance from the nearest of `starts`, and its parent on the path.

        The distance is the number of edges, or the sum of their `weights`, and inf if there is no
        path. The parent of a start, and of a node without a path, is -1.
        """
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import dijkstra

        size, ends = self.sizes.sum(), (self.edges[0], self.edges[1])
        lengths = np.ones(len(ends[0])) if weights is None else weights.astype(np.float64)
        matrix = coo_array((lengths, ends), shape=(size, size)).tocsr()
        options = {"unweighted": weights is None, "min_only": True, "return_predecessors": True}
        distance, parent, _ = dijkstra(matrix, indices=starts, **options)
        return distance, np.maximum(parent, -1).astype(np.int64)

    def distances(self, starts: Numbers) -> Numbers:
        """Return the distance of each node from the nearest of `starts`; -1 if there is no path."""
        distance, _ = self.search(starts)
        return np.where(np.isfinite(distance), distance, -1).astype(np.int64)

    def heights(self, roots: Numbers) -> tuple[Numbers, Numbers]:
        """Return each node's distances from the root of its tree and its farthest descendant."""
        far, parent = self.search(roots)
        distance = far.astype(np.int64)
        height = np.zeros_like(distance)
        farthest_first = np.argsort(-distance, kind="stable")
        levels = np.split(farthest_first, np.bincount(distance)[::-1].cumsum()[:-1])
        for level in levels[:-1]:
            np.maximum.at(height, parent[level], height[level] + 1)
        return distance, height

    def split(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        """Split rows, one for each node or for each edge, into the rows of each graph.

        If there are as many edges as nodes, these are the loops, in the order of the nodes.
        """
        graph = self.graph if len(rows) == self.sizes.sum() else self.graph[self.edges[1]]
        ends = np.bincount(graph, minlength=len(self.sizes)).cumsum()
        return np.split(rows[np.argsort(graph, kind="stable")], ends[:-1])
