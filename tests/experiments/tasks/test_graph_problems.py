from itertools import chain
from typing import Any

import networkx
import numpy as np
import pytest

from graphut.experiments.tasks import TASKS, LabelledGraph
from graphut.experiments.tasks.graph_problems import (
    GraphBFS,
    GraphDijkstra,
    GraphDistance,
    GraphPath,
    GraphProblem,
    GraphReach,
)
from graphut.experiments.tasks.random_graphs import FAMILIES, TREES
from tests.helpers import refuses

PROBLEMS: list[Any] = [kind for kind in TASKS.values() if issubclass(kind, GraphProblem)]
SIZES = {"epoch_size": 40, "held_out": 20, "test_sizes": "30", "test_nodes": 60}


def marked(graph: LabelledGraph) -> list[int]:
    return np.flatnonzero(graph.nodes == 1).tolist()


def plain(graph: LabelledGraph) -> networkx.Graph:
    """The graph without its loops."""
    ends = [(one, other) for one, other in graph.edges.T.tolist() if one != other]
    found = networkx.empty_graph(len(graph.nodes))
    found.add_edges_from(ends)
    return found


def distances(graph: LabelledGraph, start: int) -> list[int]:
    """The edges on a shortest path from a node to each node; -1 where there is none."""
    lengths = networkx.single_source_shortest_path_length(plain(graph), start)
    return [lengths.get(node, -1) for node in range(len(graph.nodes))]


def graphs_of(kind: Any, families: dict[str, Any]) -> list[LabelledGraph]:
    """Graphs of all sets; each has a depth."""
    task = kind(families=",".join(families), sizes="2-12", **SIZES)
    graphs = [*task.train(0, 0), *chain.from_iterable(map(task.load, task.test_sets))]
    assert all(graph.depth is not None for graph in graphs)
    return graphs


def same(ones: list[LabelledGraph], others: list[LabelledGraph]) -> bool:
    pairs = zip(ones, others, strict=True)
    return all(np.array_equal(a, b) for pair in pairs for a, b in zip(*pair, strict=True))


@pytest.mark.parametrize("kind", PROBLEMS)
def test_problems_draw_graphs_with_loops_by_options_seed_and_epoch_alone(kind: Any) -> None:
    one, other = kind(**SIZES), kind(**SIZES)
    assert same(one.train(1, 2), other.train(1, 2))
    assert not same(one.train(1, 2), one.train(1, 3)) and not same(one.train(1, 2), one.train(2, 2))
    assert len(one.train(1, 2)) == 40 and len(one.validation) == len(one.test) == 20
    assert all(same(one.load(name), other.load(name)) for name in one.test_sets)
    sizes = {len(graph.nodes) for graph in one.train(0, 0)}
    assert {*range(4, 25)} >= sizes and len(sizes) > 10
    for graph in one.test:
        pairs = [*map(tuple, graph.edges.T.tolist())]
        loops = {(node, node) for node in range(len(graph.nodes))}
        assert len({*pairs}) == len(pairs) and loops <= {*pairs}
        assert {(target, source) for source, target in pairs} == {*pairs}


def test_problems_draw_from_a_pool_and_shuffle_nodes() -> None:
    task = GraphDistance(sizes="4,7", pool=3, **SIZES)
    epochs = [graph for epoch in (0, 1) for graph in task.train(0, epoch)]
    assert {len(graph.nodes) for graph in epochs} <= {4, 7}
    assert len({graph.edges.tobytes() + graph.labels.tobytes() for graph in epochs}) == 3
    assert len(epochs) == 80 and not same(task.train(0, 0), task.train(0, 1))
    assert same(task.train(1, 0), task.train(1, 0)) and not same(task.train(0, 0), task.train(1, 0))
    graphs = GraphDistance(families="path", sizes="12-12", **SIZES).train(0, 0)
    assert len({marked(graph)[0] for graph in graphs}) > 6
    assert len({min(plain(graph)[0]) for graph in graphs}) > 6


def test_graph_distance_equals_a_search() -> None:
    for graph in graphs_of(GraphDistance, FAMILIES):
        [start] = marked(graph)
        expected = distances(graph, start)
        assert graph.depth.tolist() == expected
        assert graph.labels.tolist() == [distance % 2 for distance in expected]


def test_graph_reach_equals_a_search() -> None:
    answers = set()
    for graph in graphs_of(GraphReach, FAMILIES):
        [start] = marked(graph)
        expected = distances(graph, start)
        assert graph.depth.tolist() == expected
        assert graph.labels.tolist() == [int(distance >= 0) for distance in expected]
        answers |= {*graph.labels.tolist()}
    assert answers == {0, 1}


def test_graph_path_equals_removing_each_node() -> None:
    """A node is between two others if they are apart without it."""
    for graph in graphs_of(GraphPath, TREES):
        marks, tree = marked(graph), plain(graph)
        for node in {*tree} - {*marks}:
            branches = [*networkx.connected_components(tree.subgraph({*tree} - {node}))]
            held = [sum(mark in branch for mark in marks) for branch in branches]
            away = networkx.single_source_shortest_path_length(tree, node)
            without = [x for b, n in zip(branches, held, strict=True) if not n for x in b]
            assert graph.labels[node] == int(1 in held)
            depth = 0 if 1 in held else 1 + max((away[x] for x in without), default=0)
            assert graph.depth[node] == depth
        assert all(graph.labels[mark] == 1 and graph.depth[mark] == 0 for mark in marks)


def test_parents_in_trees_of_shortest_paths_equal_networkx() -> None:
    for graph in graphs_of(GraphDijkstra, FAMILIES):
        [start] = marked(graph)
        weights, undirected = graph.edge_feats[:, 0], networkx.Graph()
        for (source, target), weight in zip(graph.edges.T.tolist(), weights.tolist(), strict=True):
            assert weight == 1 if source == target else 0.03 < weight < 1.01
            assert undirected.get_edge_data(source, target, {"weight": weight})["weight"] == weight
            undirected.add_edge(source, target, weight=weight)
        paths = networkx.single_source_dijkstra_path(undirected, start)
        expected = {(path[-2], node) for node, path in paths.items() if len(path) > 1}
        chosen = {*map(tuple, graph.edges[:, graph.labels == 1].T.tolist())}
        assert chosen == {*expected, (start, start)}
        assert graph.depth.tolist() == [len(paths[node]) - 1 for node in range(len(graph.nodes))]


def test_graph_bfs_takes_all_edges_from_nearer_nodes() -> None:
    for graph in graphs_of(GraphBFS, FAMILIES):
        [start] = marked(graph)
        far = distances(graph, start)
        assert graph.depth.tolist() == far
        for (source, target), label in zip(graph.edges.T.tolist(), graph.labels, strict=True):
            back = source == target if target == start else far[source] < far[target]
            assert label == int(back)


def is_path(graph: LabelledGraph) -> bool:
    """Return whether each node has a loop and at most two neighbours."""
    return bool(np.bincount(graph.edges[1]).max() <= 3)


def test_problems_mix_families_and_name_test_sets() -> None:
    task = GraphDistance(families="path, near", test_families="recursive,path", **SIZES)
    assert {is_path(graph) for graph in task.train(0, 0)} == {True, False}
    assert task.test_sets == ["test", "recursive-30", "path-30"]
    assert [len(task.load(name)) for name in task.test_sets] == [20, 2, 2]
    found = {
        name: {is_path(graph) for graph in task.load(f"{name}-30")}
        for name in ("recursive", "path")
    }
    assert found == {"recursive": {False}, "path": {True}}
    assert len(GraphDistance(**SIZES, test_graphs=3).load("near-30")) == 3
    assert GraphDistance(test_sizes="", held_out=1).test_sets == ["test"]


def test_problems_quote_bad_options() -> None:
    for kind, options, words in (
        (GraphDistance, {"families": "oak"}, "families of graph-distance are among path, near, .*"),
        (GraphDistance, {"families": " "}, "families must name a family"),
        (GraphDistance, {"test_families": "oak"}, "test_families of .* are among .*; got 'oak'"),
        (GraphDistance, {"sizes": "1-4"}, "sizes must be whole numbers of 2 or more, .*'1-4'"),
        (GraphDistance, {"sizes": "9-5"}, "as in '2,4-6'; got '9-5'"),
        (GraphPath, {"families": "delaunay"}, "families of graph-path are among .*'delaunay'"),
        (GraphBFS, {"families": "isolated"}, "families of graph-bfs are among .*; got 'isolated'"),
    ):
        refuses(words, kind, **options)
