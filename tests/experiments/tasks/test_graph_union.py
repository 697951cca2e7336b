from __future__ import annotations

import networkx
import numpy as np

from graphut.experiments.tasks.graph_union import GraphUnion

PATH = np.array([[0, 1], [1, 2], [2, 3]])
TRIANGLE = np.array([[0, 1], [1, 2], [2, 0]])


def union_of(*parts: np.ndarray, directed: bool = False) -> GraphUnion:
    sizes = np.array([part.max() + 1 for part in parts])
    return GraphUnion.of(sizes, parts, np.random.default_rng(0), directed)


def test_edges_stay_in_their_graph_and_every_node_has_a_loop() -> None:
    for directed, edges in ((True, [3, 3]), (False, [6, 6])):
        union = union_of(PATH, TRIANGLE, directed=directed)
        assert union.first.tolist() == [0, 4] and union.graph.tolist() == [0] * 4 + [1] * 3
        source, target = union.edges
        assert (union.graph[source] == union.graph[target]).all()
        is_loop = source == target
        assert np.bincount(union.graph[source[~is_loop]]).tolist() == edges
        assert source[is_loop].tolist() == [*range(7)]
        by_graph = union.by_edge(union.edges)
        assert [set(union.graph[part[0]]) for part in by_graph] == [{0}, {1}]
        assert sum(part.shape[1] for part in by_graph) == union.edges.shape[1]


def test_searches_equal_networkx() -> None:
    union = union_of(PATH, PATH)
    graph = networkx.Graph(union.edges.T.tolist())
    graph.remove_edges_from([*networkx.selfloop_edges(graph)])
    roots = union.first
    distance, parent, height = union.heights(roots)
    assert distance.tolist() == union.distances(roots).tolist()
    for root, tree in zip(roots.tolist(), networkx.connected_components(graph), strict=True):
        for node, path in networkx.single_source_shortest_path(graph, root).items():
            assert node in tree and distance[node] == len(path) - 1
            assert parent[node] == (path[-2] if len(path) > 1 else -1)
            below = [other for other in tree if node in networkx.shortest_path(graph, root, other)]
            assert height[node] == distance[below].max() - distance[node]
        far = networkx.eccentricity(graph.subgraph(tree))
        assert [union.eccentricities()[node] for node in far] == [*far.values()]


def test_a_component_with_a_cycle_has_no_eccentricities() -> None:
    union = union_of(TRIANGLE, PATH)
    assert (union.eccentricities() == -1).tolist() == [True] * 3 + [False] * 4
    assert union.distances(union.first[:1]).tolist()[3:] == [-1] * 4
