"""Problems on random graphs whose labels depend on nodes that are many edges away."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.base import PARTS, DrawnTask, GraphTask, LabelledGraph, whole_numbers
from graphut.experiments.tasks.presets import BFS, DIJKSTRA, DISTANCE, GRAPH_PROBLEM, PATH, REACH
from graphut.experiments.tasks.random_graphs import (
    FAMILIES,
    TREES,
    UNCONNECTED,
    Edges,
    GraphUnion,
    Numbers,
    cut_apart,
)
from graphut.models.checked_config import option
from graphut.vocabulary import Vocabulary

_PLACES = Vocabulary(["plain", "marked"])
_YES_NO = Vocabulary(["no", "yes"])

Solution = dict[str, NDArray[Any]]
"""Fields of `LabelledGraph` for all graphs together: `nodes`, `labels`, `depth`, `edge_feats`."""


@dataclass(frozen=True)
class GraphProblem(DrawnTask, GraphTask):
    """A base class of problems on random graphs, drawn anew for each epoch.

    The nodes of each graph are in random order and have self-loops. Validation and test sets
    depend on the options alone. Nodes of large graphs need more steps than in training; use
    `graphut eval RUN --max-steps 2000`. Models of the preset `waking` run until no state changes.
    """

    presets = GRAPH_PROBLEM
    node_kinds: ClassVar[Vocabulary] = _PLACES
    answers: ClassVar[Vocabulary] = _YES_NO
    directed: ClassVar[bool] = False
    known_families: ClassVar[Sequence[str]] = tuple(FAMILIES)

    families: str = option("near", f"families to draw from, with commas: {', '.join(FAMILIES)}")
    sizes: str = option("4-24", "nodes of a graph: a range, or several, with commas")
    epoch_size: int = option(6400, "graphs in an epoch", least=1)
    pool: int = option(0, "training graphs to draw each epoch from; 0: new graphs in each", least=0)
    held_out: int = option(500, "graphs in the validation set, and in the test set", least=1)
    test_sizes: str = option(
        "100,1000", "nodes of the graphs in further test sets, one set for each of these numbers"
    )
    test_families: str = option("", "families of further test sets, one set each (as families)")
    test_nodes: int = option(3000, "nodes in a further test set, at least", least=1)
    test_graphs: int = option(1, "graphs in a further test set, at least", least=1)

    def _check_values(self) -> None:
        for name in ("families", "test_families"):
            for family in self._listed(name):
                if family not in self.known_families:
                    names = ", ".join(self.known_families)
                    raise ValueError(f"{name} of {self.name} are among {names}; got {family!r}")
        if not self._listed("families"):
            raise ValueError("families must name a family")
        _ = self._sizes, self._test_sizes

    @property
    def test_sets(self) -> list[str]:
        """The names of the test sets: "test", and larger graphs, such as "near-100"."""
        families = self._listed("test_families") or self._listed("families")
        return ["test", *(f"{name}-{size}" for name in families for size in self._test_sizes)]

    def load(self, part: str) -> list[LabelledGraph]:
        family, _, nodes = part.rpartition("-")
        if not family:
            return super().load(part)
        size, test = int(nodes), PARTS.index("test")
        count = max(self.test_graphs, -(-self.test_nodes // size))
        random = np.random.default_rng([test, crc32(family.encode()), size])
        return self._draw([family] * count, np.full(count, size), random)

    def train(self, seed: int, epoch: int) -> list[LabelledGraph]:
        """Draw the training graphs of an epoch: new ones, or a choice from `pool` fixed ones."""
        if not self.pool:
            return super().train(seed, epoch)
        graphs = self.draw(self.pool, "train", seed)
        chosen = np.random.default_rng([seed, epoch]).integers(0, self.pool, self.epoch_size)
        return [graphs[index] for index in chosen]

    def draw(self, count: int, part: str, *stream: int) -> list[LabelledGraph]:
        random = np.random.default_rng([PARTS.index(part), *stream])
        families = random.choice(self._listed("families"), count).tolist()
        return self._draw(families, random.choice(self._sizes, count), random)

    def _draw(
        self, families: Sequence[str], sizes: Numbers, random: np.random.Generator
    ) -> list[LabelledGraph]:
        pairs = zip(families, sizes.tolist(), strict=True)
        parts = [self._draw_edges(family, size, random) for family, size in pairs]
        union = GraphUnion.of(sizes, parts, random, self.directed)
        ends = union.edges - union.first[union.graph[union.edges[1]]]
        fields = {"edges": ends.T, **self.solve(union, random)}
        columns = zip(*map(union.split, fields.values()), strict=True)
        graphs = [dict(zip(fields, rows, strict=True)) for rows in columns]
        return [LabelledGraph(edges=rows.pop("edges").T, **rows) for rows in graphs]

    def _draw_edges(self, family: str, size: int, random: np.random.Generator) -> Edges:
        return (FAMILIES | UNCONNECTED)[family](size, random)

    @abstractmethod
    def solve(self, union: GraphUnion, random: np.random.Generator) -> Solution:
        """Make the nodes' inputs and labels.

        The kind of a node is its input, such as "marked". Its depth measures how many steps of
        message passing its label needs.
        """

    def _listed(self, name: str) -> list[str]:
        return [part.strip() for part in getattr(self, name).split(",") if part.strip()]

    @property
    def _sizes(self) -> list[int]:
        return whole_numbers("sizes", self.sizes, 2)

    @property
    def _test_sizes(self) -> list[int]:
        return whole_numbers("test_sizes", self.test_sizes, 2) if self.test_sizes else []


class GraphDistance(GraphProblem):
    """Predict for each node whether its distance to the marked node is odd.

    In graphs of the family "isolated", which have no edges, only the marked node has a label.

    Examples
    --------
    >>> [graph] = GraphDistance(sizes="3-3", families="path", held_out=1).test
    >>> graph.nodes, graph.labels, graph.depth
    (array([1, 0, 0]), array([0, 1, 1]), array([0, 1, 1]))
    """

    name: ClassVar[str] = "graph-distance"
    presets = DISTANCE
    known_families = (*FAMILIES, *UNCONNECTED)

    def solve(self, union: GraphUnion, random: np.random.Generator) -> Solution:
        marked = union.draw(random)
        distance = union.distances(marked)
        labels = np.where(distance < 0, -1, distance % 2)
        return {"nodes": _marks(union, marked), "labels": labels, "depth": distance.clip(0)}


class GraphReach(GraphProblem):
    """Predict for each node whether its component has a marked node.

    A random graph becomes several components: a tree loses one or two random edges, and another
    graph all edges between the nodes near a random node and the rest. A node needs information from
    its whole component to know that the component has no marked node. Its depth is then unknown.
    """

    name: ClassVar[str] = "graph-reach"
    presets = REACH

    def solve(self, union: GraphUnion, random: np.random.Generator) -> Solution:
        marked = union.draw(random)
        distance = union.distances(marked)
        reached = (distance >= 0).astype(np.int64)
        return {"nodes": _marks(union, marked), "labels": reached, "depth": distance}

    def _draw_edges(self, family: str, size: int, random: np.random.Generator) -> Edges:
        edges = super()._draw_edges(family, size, random)
        if family not in TREES:
            return cut_apart(edges, size, random)
        lost = min(int(random.integers(1, 3)), len(edges))
        return np.delete(edges, random.choice(len(edges), lost, replace=False), axis=0)


class GraphPath(GraphProblem):
    """Predict for each node of a tree whether it is on the path between two marked nodes.

    The path includes the marked nodes. The depth of a node (a measure of the steps that its label
    needs) is 0 on the path. Another node has one branch with the marked nodes (a branch is the
    subtree behind one neighbour); its depth is the number of nodes on the longest way that begins
    at the node and leads into its other branches. After so many steps it is pruned, if every node
    first counts as on the path and nodes are pruned from the leaves.

    Examples
    --------
    >>> [graph] = GraphPath(sizes="6-6", families="path", held_out=1).test
    >>> graph.nodes, graph.labels, graph.depth  # of the path 3-5-2-4-0-1
    (array([0, 0, 1, 1, 0, 0]), array([0, 0, 1, 1, 0, 1]), array([2, 1, 0, 0, 3, 0]))
    """

    name: ClassVar[str] = "graph-path"
    presets = PATH
    known_families = tuple(TREES)

    def solve(self, union: GraphUnion, random: np.random.Generator) -> Solution:
        one = union.draw(random)
        other = union.first + (one - union.first + random.integers(1, union.sizes)) % union.sizes
        from_one, below = union.heights(one)
        apart = np.repeat(from_one[other], union.sizes)
        between = from_one + union.distances(other) == apart
        depth = np.where(between, 0, below + 1)
        nodes = _marks(union, np.concatenate([one, other]))
        return {"nodes": nodes, "labels": between.astype(np.int64), "depth": depth}


@dataclass(frozen=True)
class GraphBFS(GraphProblem):
    """Predict for each node an in-edge that leads towards the marked node.

    Every edge from a neighbour that is nearer to the marked node is correct. For the marked node,
    its self-loop is correct. SALSA-CLRS (arXiv 2309.12253) has the same families and sizes.
    """

    name: ClassVar[str] = "graph-bfs"
    presets = BFS
    answer_at = "edge"
    answers: ClassVar[Vocabulary] = Vocabulary([])

    families: str = option("erdos-renyi", "families to draw from, with commas; see graph-distance")
    sizes: str = option("4-16", "nodes of a graph: the fewest, a hyphen, and the most")
    test_sizes: str = option("16,80,160,800,1600", "nodes of the graphs in further test sets")
    test_families: str = option("erdos-renyi,watts-strogatz,delaunay", "families of these sets")

    def solve(self, union: GraphUnion, random: np.random.Generator) -> Solution:
        marked = union.draw(random)
        distance = union.distances(marked)
        source, target = union.edges
        nearer = distance[source] == distance[target] - 1
        at_mark = (source == target) & (distance[target] == 0)
        labels = (nearer | at_mark).astype(np.int64)
        return {"nodes": _marks(union, marked), "labels": labels, "depth": distance}


@dataclass(frozen=True)
class GraphDijkstra(GraphBFS):
    """Predict for each node the last edge of its shortest path from the marked node.

    The feature of an edge is its weight; self-loops have the weight 1. For the marked node, its
    self-loop is correct. The depth of a node (a measure of the steps that its label needs) is the
    number of edges of its path. SALSA-CLRS (arXiv 2309.12253) has the same families, sizes and
    weights.
    """

    name: ClassVar[str] = "graph-dijkstra"
    presets = DIJKSTRA
    edge_feats = 1

    def solve(self, union: GraphUnion, random: np.random.Generator) -> Solution:
        marked = union.draw(random)
        loops = union.sizes.sum()
        drawn = random.random((2, (union.edges.shape[1] - loops) // 2))
        drawn = np.sqrt(drawn.prod(0) + 1e-3).astype(np.float32)  # as attention reads them
        weights = np.concatenate([drawn, drawn, np.ones(loops, np.float32)])
        _, parent = union.search(marked, weights)
        tree = np.stack([parent, np.arange(len(parent))])[:, parent >= 0]
        depth = GraphUnion(union.sizes, tree).distances(marked)
        source, target = union.edges
        parent[marked] = marked
        labels = (source == parent[target]).astype(np.int64)
        nodes, feats = _marks(union, marked), weights[:, None]
        return {"nodes": nodes, "labels": labels, "depth": depth, "edge_feats": feats}


def _marks(union: GraphUnion, marked: Numbers) -> Numbers:
    kinds = np.zeros(union.sizes.sum(), np.int64)
    kinds[marked] = 1
    return kinds
