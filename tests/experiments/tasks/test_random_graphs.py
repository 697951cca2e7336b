import networkx
import numpy as np
import pytest

from graphut.experiments.tasks.random_graphs import FAMILIES, TREES, cut_apart

SIZES = [*range(2, 26), 100]


def drawn(family: str, nodes: int, seed: int = 0) -> networkx.Graph:
    edges = FAMILIES[family](nodes, np.random.default_rng(seed))
    assert edges.dtype == np.int64 and edges.shape == (len(edges), 2)
    graph = networkx.empty_graph(nodes)
    graph.add_edges_from(edges.tolist())
    assert len(graph) == nodes and graph.number_of_edges() == len(edges)
    return graph


@pytest.mark.parametrize("family", FAMILIES)
def test_families_are_connected_and_a_function_of_the_seed(family: str) -> None:
    for nodes in SIZES:
        graph = drawn(family, nodes)
        assert networkx.is_connected(graph)
        assert networkx.is_tree(graph) or family not in TREES
        assert set(graph.edges) == set(drawn(family, nodes).edges)
    fixed = family in ("path", "balanced", "caterpillar", "grid", "cycle")
    assert (set(graph.edges) == set(drawn(family, nodes, seed=1).edges)) is fixed


def test_families_without_randomness_have_their_form() -> None:
    assert networkx.is_isomorphic(drawn("path", 9), networkx.path_graph(9))
    assert networkx.is_isomorphic(drawn("cycle", 9), networkx.cycle_graph(9))
    square = networkx.grid_2d_graph(4, 4)
    assert networkx.is_isomorphic(drawn("grid", 16), square)
    square.remove_nodes_from([(3, 2), (3, 3)])  # the last row is shorter
    assert networkx.is_isomorphic(drawn("grid", 14), square)
    assert networkx.is_isomorphic(drawn("balanced", 15), networkx.balanced_tree(2, 3))
    degrees = sorted(degree for _, degree in drawn("caterpillar", 10).degree)
    assert degrees == [1] * 5 + [2] * 2 + [3] * 3


def test_families_have_the_number_of_edges_of_the_benchmark() -> None:
    for family, low, high in (("erdos-renyi", 4, 17), ("delaunay", 5, 6), ("road", 2.28, 2.3)):
        for seed in range(5):
            assert low < 2 * drawn(family, 160, seed).number_of_edges() / 160 < high
    counts = {drawn("watts-strogatz", 160, seed).number_of_edges() / 160 for seed in range(20)}
    assert counts == {2.0, 3.0, 4.0}
    for nodes in (5, 20, 100):
        assert networkx.check_planarity(graph := drawn("road", nodes))[0]
        assert graph.number_of_edges() == nodes - 1 + int(0.15 * nodes)


def test_maze_is_a_search_of_the_grid() -> None:
    maze = drawn("maze", 100)
    assert set(maze.edges) <= set(drawn("grid", 100).edges)
    assert networkx.diameter(maze) > 30  # long corridors; a uniform tree has about 20


@pytest.mark.parametrize("family", ["grid", "watts-strogatz"])
def test_cut_apart_removes_all_edges_between_a_ball_and_the_rest(family: str) -> None:
    whole, random = drawn(family, 40), np.random.default_rng(0)
    for _ in range(6):
        edges = {*map(tuple, cut_apart(np.array(whole.edges), 40, random).tolist())}
        rest = networkx.Graph([*((node, node) for node in whole), *edges])
        assert edges < {*whole.edges}
        assert not any(networkx.has_path(rest, *ends) for ends in {*whole.edges} - edges)
