from typing import Any

import networkx
import numpy as np
import pytest

from graphut.experiments.tasks import TASKS, LabelledGraph
from graphut.experiments.tasks.graph_families import FAMILIES, TREES
from graphut.experiments.tasks.graph_problems import (
    GraphBFS,
    GraphDijkstra,
    GraphDistance,
    GraphPath,
    GraphProblem,
    GraphReach,
)
from tests.helpers import refuses

PROBLEMS: list[Any] = [kind for kind in TASKS.values() if issubclass(kind, GraphProblem)]
SIZES = {"epoch_size": 40, "held_out": 20, "test_sizes": "30", "test_nodes": 60}


def marked(graph: LabelledGraph) -> list[int]:
    return np.flatnonzero(graph.nodes == 1).tolist()


def neighbours_of(graph: LabelledGraph) -> dict[int, list[int]]:
    """The other nodes that read each node."""
    neighbours: dict[int, list[int]] = {node: [] for node in range(len(graph.nodes))}
    for source, target in graph.edges.T.tolist():
        if source != target:
            neighbours[source].append(target)
    return neighbours


def distances(graph: LabelledGraph, start: int) -> list[int]:
    """The edges on a shortest path from a node to each node; -1 where there is none."""
    plain = networkx.DiGraph(graph.edges.T.tolist())
    lengths = networkx.single_source_shortest_path_length(plain, start)
    return [lengths.get(node, -1) for node in range(len(graph.nodes))]


def graphs_of(kind: Any, families: dict[str, Any]) -> list[LabelledGraph]:
    task = kind(families=",".join(families), sizes="2-12", **SIZES)
    return [*task.train(0, 0), *(graph for part in task.test_sets.values() for graph in part)]


def same(ones: list[LabelledGraph], others: list[LabelledGraph]) -> bool:
    pairs = zip(ones, others, strict=True)
    return all(np.array_equal(a, b) for pair in pairs for a, b in zip(*pair, strict=True))


@pytest.mark.parametrize("kind", PROBLEMS)
def test_problems_draw_graphs_with_loops_by_options_seed_and_epoch_alone(kind: Any) -> None:
    one, other = kind(**SIZES), kind(**SIZES)
    assert same(one.train(1, 2), other.train(1, 2))
    assert not same(one.train(1, 2), one.train(1, 3)) and not same(one.train(1, 2), one.train(2, 2))
    assert len(one.train(1, 2)) == 40 and len(one.validation) == len(one.test) == 20
    for name, graphs in one.test_sets.items():
        assert same(graphs, other.test_sets[name])
    sizes = [len(graph.nodes) for graph in one.train(0, 0)]
    assert set(range(4, 25)) >= set(sizes) and len(set(sizes)) > 10
    for graph in one.test:
        pairs = list(map(tuple, graph.edges.T.tolist()))
        loops = {(node, node) for node in range(len(graph.nodes))}
        assert len(set(pairs)) == len(pairs) and loops <= set(pairs)
        assert {(target, source) for source, target in pairs} == set(pairs)


def test_problems_draw_from_a_pool() -> None:
    task = GraphDistance(sizes="4,7", pool=3, **SIZES)
    epochs = [graph for epoch in (0, 1) for graph in task.train(0, epoch)]
    assert {len(graph.nodes) for graph in epochs} <= {4, 7}
    assert len({graph.edges.tobytes() + graph.labels.tobytes() for graph in epochs}) == 3
    assert len(epochs) == 80 and not same(task.train(0, 0), task.train(0, 1))
    assert same(task.train(1, 0), task.train(1, 0)) and not same(task.train(0, 0), task.train(1, 0))


def test_problems_shuffle_nodes() -> None:
    graphs = GraphDistance(families="path", sizes="12-12", **SIZES).train(0, 0)
    assert len({marked(graph)[0] for graph in graphs}) > 6
    assert len({neighbours_of(graph)[0][0] for graph in graphs}) > 6


def test_graph_distance_equals_a_search() -> None:
    for graph in graphs_of(GraphDistance, FAMILIES):
        [start] = marked(graph)
        expected = distances(graph, start)
        assert graph.depth is not None and graph.depth.tolist() == expected
        assert graph.labels.tolist() == [distance % 2 for distance in expected]


def test_graph_reach_equals_a_search() -> None:
    answers = set()
    for graph in graphs_of(GraphReach, FAMILIES):
        [start] = marked(graph)
        expected = distances(graph, start)
        assert graph.labels.tolist() == [int(distance >= 0) for distance in expected]
        answers |= set(graph.labels.tolist())
        plain = networkx.Graph([(a, b) for a, b in graph.edges.T.tolist() if a != b])
        plain.add_nodes_from(range(len(graph.nodes)))
        depth = []
        for node, distance in enumerate(expected):
            part = plain.subgraph(networkx.node_connected_component(plain, node))
            unknown = distance < 0 and not networkx.is_tree(part)
            longest = -1 if unknown else max(distances(graph, node))
            depth.append(distance if distance >= 0 else longest)
        assert graph.depth is not None and graph.depth.tolist() == depth
    assert answers == {0, 1}


def test_graph_path_equals_removing_each_node() -> None:
    """A node is between two others if they are apart without it."""
    for graph in graphs_of(GraphPath, TREES):
        marks = marked(graph)
        tree = networkx.Graph(graph.edges.T.tolist())
        tree.remove_edges_from(networkx.selfloop_edges(tree))
        for node in set(tree) - {*marks}:
            branches = [*networkx.connected_components(tree.subgraph(set(tree) - {node}))]
            held = [sum(mark in branch for mark in marks) for branch in branches]
            assert graph.labels[node] == int(1 in held)
            away = networkx.single_source_shortest_path_length(tree, node)
            unmarked = [
                max(away[u] for u in b) for b, n in zip(branches, held, strict=True) if not n
            ]
            depth = 0 if graph.labels[node] else 1 + max(unmarked, default=0)
            assert graph.depth is not None and graph.depth[node] == depth
        assert all(graph.labels[mark] == 1 and graph.depth[mark] == 0 for mark in marks)


def test_parents_in_trees_of_shortest_paths_equal_networkx() -> None:
    for graph in graphs_of(GraphDijkstra, FAMILIES):
        [start] = marked(graph)
        assert graph.edge_feats is not None and graph.depth is not None
        weights, plain = graph.edge_feats[:, 0], networkx.Graph()
        for (source, target), weight in zip(graph.edges.T.tolist(), weights.tolist(), strict=True):
            assert weight == 1 if source == target else 0.03 < weight < 1.01
            if source != target:
                assert plain.get_edge_data(source, target, {"weight": weight})["weight"] == weight
                plain.add_edge(source, target, weight=weight)
        paths = networkx.single_source_dijkstra_path(plain, start)
        expected = {(path[-2], node) for node, path in paths.items() if len(path) > 1}
        expected.add((start, start))
        assert {*map(tuple, graph.edges[:, graph.labels == 1].T.tolist())} == expected
        assert graph.depth.tolist() == [len(paths[node]) - 1 for node in range(len(graph.nodes))]


def test_graph_bfs_takes_all_edges_from_nearer_nodes() -> None:
    for graph in graphs_of(GraphBFS, FAMILIES):
        [start] = marked(graph)
        far = distances(graph, start)
        assert graph.depth is not None and graph.depth.tolist() == far
        for (source, target), label in zip(graph.edges.T.tolist(), graph.labels, strict=True):
            back = source == target if target == start else far[source] < far[target]
            assert label == int(back)


def test_graph_distance_waking_trains_with_isolated_nodes_of_both_kinds() -> None:
    """A marked node that reads nobody is common enough to learn to rest, and no label is wrong."""
    preset = GraphDistance.presets["waking"]
    graphs = GraphDistance(families=preset["families"], sizes=preset["sizes"]).train(0, 0)
    isolated = [graph for graph in graphs if graph.edges.shape[1] == len(graph.nodes)]
    assert 0.1 < len(isolated) / len(graphs) < 0.2
    for graph in isolated:
        assert np.array_equal(graph.labels, graph.nodes - 1) and not graph.depth.any()
    connected = [graph for graph in graphs if graph.edges.shape[1] > len(graph.nodes)]
    assert all(graph.has_label.all() for graph in connected)
    refuses(r"families of graph-bfs are among .*; got 'isolated'", GraphBFS, families="isolated")


def test_problems_mix_families_and_name_test_sets() -> None:
    task = GraphDistance(families="path, near", test_families="recursive,path", **SIZES)
    assert {graph.group for graph in task.train(0, 0)} == {"path", "near"}
    assert [*task.test_sets] == ["test", "recursive-30", "path-30"]
    assert [len(graphs) for graphs in task.test_sets.values()] == [20, 2, 2]
    assert {graph.group for graph in task.test_sets["recursive-30"]} == {"recursive"}
    assert len(GraphDistance(**SIZES, test_graphs=3).test_sets["near-30"]) == 3
    assert [*GraphDistance(test_sizes="", held_out=1).test_sets] == ["test"]


def test_problems_quote_bad_options() -> None:
    def check(words: str, **options: Any) -> None:
        refuses(words, GraphDistance, **options)

    check("families of graph-distance are among path, near, .*; got 'oak'", families="oak")
    check("families must name a family", families=" ")
    check("test_families of graph-distance are among .*; got 'oak'", test_families="oak")
    check("sizes must be whole numbers of 2 or more, .*; got '1-4'", sizes="1-4")
    check(r"'2,4-6' \(a range begins with its smaller number\); got '9-5'", sizes="9-5")
    check("test_sizes must be whole numbers of 2 or more, .*; got '1'", test_sizes="1")
    refuses(r"families of graph-path are among path, .*'delaunay'", GraphPath, families="delaunay")
