"""Several graphs as one disjoint graph, with SciPy's searches in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.graph_families import Edges

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Numbers = NDArray[np.int64]


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

    def distances(self, starts: Numbers) -> Numbers:
        """Return the distance of each node from the nearest of `starts`; -1 if there is no path."""
        from scipy.sparse.csgraph import dijkstra

        distance = dijkstra(self._matrix(), indices=starts, unweighted=True, min_only=True)
        return np.where(np.isfinite(distance), distance, -1).astype(np.int64)

    def heights(self, roots: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return, for each node, the distance from the root of its tree, the parent and the height.

        The height is the distance to the farthest descendant. The parent of a root is -1.
        """
        from scipy.sparse.csgraph import dijkstra

        far, parent, _ = dijkstra(
            self._matrix(), indices=roots, unweighted=True, min_only=True, return_predecessors=True
        )
        distance, parent = far.astype(np.int64), np.maximum(parent, -1).astype(np.int64)
        height = np.zeros_like(distance)
        farthest_first = np.argsort(-distance, kind="stable")
        levels = np.split(farthest_first, np.bincount(distance)[::-1].cumsum()[:-1])
        for level in levels[:-1]:
            np.maximum.at(height, parent[level], height[level] + 1)
        return distance, parent, height

    def eccentricities(self) -> Numbers:
        """Return the distance of each node to the farthest node in its component.

        The result is -1 in a component with a cycle. In a tree, the node farthest from any node is
        one end of a longest path, and the node farthest from this end is the other end.
        """
        from scipy.sparse.csgraph import connected_components

        count, component = connected_components(self._matrix(), directed=False)
        source, target = self.edges
        num_edges = np.bincount(component[source[source < target]], minlength=count)
        ends = np.unique(component, return_index=True)[1]
        distances = []
        for _ in range(3):
            distances.append(self.distances(ends))
            farthest_last = np.lexsort([distances[-1], component])
            ends = farthest_last[np.cumsum(np.bincount(component)) - 1]
        is_tree = num_edges < np.bincount(component)
        return np.where(is_tree[component], np.maximum(distances[1], distances[2]), -1)

    def shortest_paths(self, starts: Numbers, weights: NDArray[Any]) -> GraphUnion:
        """Return each graph's tree of shortest paths from its node of `starts`, without loops."""
        from scipy.sparse.csgraph import dijkstra

        matrix = self._matrix(weights.astype(np.float64))
        _, parent, _ = dijkstra(matrix, indices=starts, min_only=True, return_predecessors=True)
        [child] = np.nonzero(parent >= 0)
        edges = np.stack([parent[child], child]).astype(np.int64)
        return GraphUnion(self.sizes, np.concatenate([edges, edges[::-1]], 1))

    def split(self, rows: NDArray[Any]) -> list[NDArray[Any]]:
        """Split rows, one for each node or for each edge, into the rows of each graph.

        If there are as many edges as nodes, these are the loops, in the order of the nodes.
        """
        graph = self.graph if len(rows) == self.sizes.sum() else self.graph[self.edges[1]]
        ends = np.bincount(graph, minlength=len(self.sizes)).cumsum()
        return np.split(rows[np.argsort(graph, kind="stable")], ends[:-1])

    def _matrix(self, weights: NDArray[np.float64] | None = None) -> csr_array:
        from scipy.sparse import coo_array

        size, (source, target) = self.sizes.sum(), self.edges
        weights = np.ones(len(source)) if weights is None else weights
        return coo_array((weights, (source, target)), shape=(size, size)).tocsr()
