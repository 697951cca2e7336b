from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphut._dgl import DGLGraph, dgl
from graphut.nn import laplacian_encoding, random_walk_encoding
from tests.helpers import assert_same

ENCODINGS = [laplacian_encoding, random_walk_encoding]
Encoding = Callable[[DGLGraph, int], Tensor]


def two_way(pairs: list[tuple[int, int]], nodes: int) -> DGLGraph:
    source, target = torch.tensor(pairs).T
    return dgl.to_bidirected(dgl.graph((source, target), num_nodes=nodes))


# Without symmetries, so that no eigenvalue occurs twice.
GRAPH = two_way([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 3), (1, 4)], 6)
OTHER = two_way([(0, 1), (1, 2), (2, 3), (0, 2)], 4)


def dense(graph: DGLGraph) -> Tensor:
    return torch.zeros(6, 6).double().index_put(graph.edges(), torch.ones(()).double())


def test_encodings_eigenvectors_of_the_laplacian() -> None:
    degree = GRAPH.in_degrees().double()
    laplacian = torch.eye(6) - dense(GRAPH) / (degree[:, None] * degree).sqrt()
    values, vectors = torch.linalg.eigh(laplacian)
    found = laplacian_encoding(GRAPH, 3).double()
    assert_same([laplacian @ found], [found * values[1:4]], 1e-6)
    assert_same([found.abs()], [vectors[:, 1:4].abs()], 1e-6)
    top = found.abs().argmax(0)
    assert (found[top, torch.arange(3)] > 0).all()


def test_encodings_returns_of_a_random_walk() -> None:
    step = dense(GRAPH) / GRAPH.in_degrees()[:, None]
    powers = [torch.linalg.matrix_power(step, k).diagonal() for k in (1, 2, 3, 4)]
    assert_same([random_walk_encoding(GRAPH, 4).double()], [torch.stack(powers, 1)], 1e-6)


@pytest.mark.parametrize("encode", ENCODINGS)
def test_encodings_a_graph_in_a_batch_is_as_it_is_alone(encode: Encoding) -> None:
    batch = dgl.batch([OTHER, GRAPH, OTHER])
    alone = [encode(OTHER, 5), encode(GRAPH, 5), encode(OTHER, 5)]
    assert_same([encode(batch, 5)], [torch.cat(alone)], 1e-6)


@pytest.mark.parametrize("encode", ENCODINGS)
def test_encodings_a_graph_without_nodes_has_no_rows(encode: Encoding) -> None:
    nothing = dgl.graph(([], []), num_nodes=0)
    assert_same([encode(dgl.batch([nothing, GRAPH]), 5)], [encode(GRAPH, 5)], 1e-6)
    assert encode(nothing, 5).shape == (0, 5)


@pytest.mark.parametrize("encode", ENCODINGS)
def test_encodings_new_numbers_for_nodes_change_nothing_else(encode: Encoding) -> None:
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    moved = dgl.reorder_graph(
        GRAPH, "custom", store_ids=False, permute_config={"nodes_perm": order}
    )
    assert_same([encode(moved, 3)], [encode(GRAPH, 3)[order]], 1e-6)


@pytest.mark.parametrize("encode", ENCODINGS)
def test_encodings_it_draws_nothing(encode: Encoding) -> None:
    assert torch.equal(encode(GRAPH, 5), encode(GRAPH, 5))


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_encodings_eigenvectors_that_a_small_graph_has_not_are_zero(nodes: int) -> None:
    loops = dgl.graph((range(nodes), range(nodes)))
    found = laplacian_encoding(loops, 3)
    assert found.shape == (nodes, 3)
    assert not found[:, nodes - 1 :].any()


def test_encodings_what_a_graph_must_be() -> None:
    with pytest.raises(ValueError, match="an edge without its reverse"):
        laplacian_encoding(dgl.graph(([0, 1], [1, 2])), 2)
    types = dgl.heterograph({("a", "to", "b"): ([0], [0])})
    for encode in ENCODINGS:
        with pytest.raises(ValueError, match="size must be at least 1, got 0"):
            encode(GRAPH, 0)
        with pytest.raises(ValueError, match="several types"):
            encode(types, 2)
