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


def bidirected(pairs: list[tuple[int, int]], nodes: int) -> DGLGraph:
    source, target = torch.tensor(pairs).T
    return dgl.to_bidirected(dgl.graph((source, target), num_nodes=nodes))


# Without symmetries, so that the eigenvalues are distinct.
GRAPH = bidirected([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 3), (1, 4)], 6)
OTHER = bidirected([(0, 1), (1, 2), (2, 3), (0, 2)], 4)


def adjacency(graph: DGLGraph) -> Tensor:
    return torch.zeros(6, 6).double().index_put(graph.edges(), torch.ones(()).double())


def test_laplacian_encoding_is_made_of_eigenvectors() -> None:
    degree = GRAPH.in_degrees().double()
    laplacian = torch.eye(6) - adjacency(GRAPH) / (degree[:, None] * degree).sqrt()
    values, vectors = torch.linalg.eigh(laplacian)
    found = laplacian_encoding(GRAPH, 3).double()
    assert_same([laplacian @ found], [found * values[1:4]], 1e-6)
    assert_same([found.abs()], [vectors[:, 1:4].abs()], 1e-6)
    top = found.abs().argmax(0)
    assert (found[top, torch.arange(3)] > 0).all()


def test_random_walk_encoding_is_made_of_return_probabilities() -> None:
    step = adjacency(GRAPH) / GRAPH.in_degrees()[:, None]
    powers = [torch.linalg.matrix_power(step, k).diagonal() for k in (1, 2, 3, 4)]
    assert_same([random_walk_encoding(GRAPH, 4).double()], [torch.stack(powers, 1)], 1e-6)


@pytest.mark.parametrize("encode", ENCODINGS)
def test_encodings_handle_the_graphs_of_a_batch_separately(encode: Encoding) -> None:
    nothing = dgl.graph(([], []), num_nodes=0)
    batch = dgl.batch([OTHER, nothing, GRAPH, OTHER])
    alone = [encode(graph, 5) for graph in (OTHER, GRAPH, OTHER)]
    assert_same([encode(batch, 5)], [torch.cat(alone)], 1e-6)
    assert encode(nothing, 5).shape == (0, 5)


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_laplacian_encoding_pads_with_zeros(nodes: int) -> None:
    loops = dgl.graph((range(nodes), range(nodes)))
    found = laplacian_encoding(loops, 3)
    assert found.shape == (nodes, 3)
    assert not found[:, nodes - 1 :].any()


def test_encodings_refuse_other_graphs_and_sizes() -> None:
    with pytest.raises(ValueError, match="an edge without its reverse"):
        laplacian_encoding(dgl.graph(([0, 1], [1, 2])), 2)
    types = dgl.heterograph({("a", "to", "b"): ([0], [0])})
    for encode in ENCODINGS:
        with pytest.raises(ValueError, match="size must be at least 1, got 0"):
            encode(GRAPH, 0)
        with pytest.raises(ValueError, match="several types"):
            encode(types, 2)
