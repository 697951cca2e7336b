"""Answers of registers against independent algorithms, on weights of every size."""

import heapq
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphut._dgl import DGLGraph, dgl
from graphut.attention.layout import layout_from_edges
from graphut.models import UniversalGraphTransformer, UniversalGraphTransformerConfig
from graphut.nn import AdaptiveRecurrence, EventDriven, RegisterMessages, UniversalTransformerStep
from tests.helpers import refuses

Arrays = tuple[NDArray[np.int64], NDArray[np.float64]]


def roads(random: np.random.Generator, width: int = 14) -> Arrays:
    """Return the edges of a grid with some roads closed, in both directions, and lengths."""
    cell = np.arange(width * width).reshape(width, width)
    pairs = [cell[:, :-1].ravel(), cell[1:].ravel()], [cell[:, 1:].ravel(), cell[:-1].ravel()]
    ends = np.stack([np.concatenate(each) for each in pairs])
    ends = ends[:, random.random(ends.shape[1]) < 0.8]
    lengths = random.integers(1, 10_000, ends.shape[1]) / 100
    return np.concatenate([ends, ends[::-1]], 1), np.tile(lengths, 2)


def complete(random: np.random.Generator, nodes: int = 60) -> Arrays:
    ends = np.stack(np.nonzero(~np.eye(nodes, dtype=bool)))
    return ends, 10 ** random.uniform(-6, 6, ends.shape[1])


def scaled(factor: float) -> Callable[[np.random.Generator], Arrays]:
    def draw(random: np.random.Generator) -> Arrays:
        edges, weights = roads(random)
        return edges, weights * factor

    return draw


def large(random: np.random.Generator) -> Arrays:
    edges, weights = roads(random)
    return edges, 1e8 + np.arange(len(weights))


def many_ties(random: np.random.Generator) -> Arrays:
    edges, weights = roads(random, 9)
    return edges, random.integers(0, 3, len(weights)).astype(float)


GRAPHS: dict[str, Callable[[np.random.Generator], Arrays]] = {
    "x 1e-6": scaled(1e-6),
    "x 1e-8": scaled(1e-8),
    "x 1e-200": scaled(1e-200),
    "10^U(-6, 6)": complete,
    "1e8 + k": large,
    "zeros and ties": many_ties,
}


def shortest_paths(edges: NDArray[np.int64], weights: NDArray[np.float64], start: int) -> list[int]:
    """Return pointers by Dijkstra's algorithm: smallest sum, then fewest edges, then smallest id.

    A node that is not reached has the pointer -1, and the start its own id.
    """
    nodes = int(edges.max()) + 1
    reached: dict[int, tuple[float, int]] = {}
    queue, out = [(0.0, 0, start)], [[] for _ in range(nodes)]
    for source, target, weight in zip(*edges.tolist(), weights.tolist(), strict=True):
        out[source].append((target, weight))
    while queue:
        length, hops, node = heapq.heappop(queue)
        if node not in reached:
            reached[node] = length, hops
            for target, weight in out[node]:
                heapq.heappush(queue, (length + weight, hops + 1, target))
    pointers, best = [-1] * nodes, [(np.inf, np.inf, np.inf)] * nodes
    for source, target, weight in zip(*edges.tolist(), weights.tolist(), strict=True):
        if source in reached and target != start:
            length, hops = reached[source]
            best[target] = min(best[target], (length + weight, hops, source))
            pointers[target] = int(best[target][2])
    pointers[start] = start
    return pointers


def model() -> UniversalGraphTransformer:
    config = UniversalGraphTransformerConfig(
        num_kinds=2, answer_at="edge", layer="registers", adaptive=False, inject_input=True,
        edge_feats=1, evaluation_rule="event_driven", step_signal="none", max_steps=8,
    )  # fmt: skip
    model = UniversalGraphTransformer(config).eval()
    model._registers.set_operation("sum", smallest=True)
    return model


@pytest.mark.parametrize("name", GRAPHS)
def test_answers_are_those_of_dijkstra_with_weights_of_every_size(name: str) -> None:
    for seed in range(3):
        random = np.random.default_rng(seed)
        edges, weights = GRAPHS[name](random)
        nodes, start = int(edges.max()) + 1, int(random.integers(edges.max() + 1))
        graph = dgl_graph(edges, weights, np.arange(nodes) == start)
        [prediction] = model().predict(graph)
        expected = shortest_paths(edges, weights, start)
        assert [-1 if x is None else x for x in prediction.labels] == expected
        # The answer is the edge itself: a probability of 1, or 0 everywhere without an answer.
        assert prediction.probabilities is not None
        shares = torch.zeros(nodes, dtype=torch.double)
        target = torch.from_numpy(np.append(edges[1], np.arange(nodes)))
        shares.index_add_(0, target, prediction.probabilities.double())
        assert shares.tolist() == [float(x >= 0) for x in expected]


def dgl_graph(
    edges: NDArray[np.int64], weights: NDArray[np.float64], starts: NDArray[np.bool_]
) -> DGLGraph:
    graph = dgl.graph((edges[0], edges[1]), num_nodes=len(starts))
    graph.ndata["feat"] = torch.from_numpy(starts).long()
    graph.edata["feat"] = torch.from_numpy(weights)[:, None]
    return graph


def recurrence(messages: RegisterMessages) -> AdaptiveRecurrence:
    step = UniversalTransformerStep(messages, None, norm=None, residual=False)
    return AdaptiveRecurrence(
        step, rule=EventDriven(max_rounds=50), position_signal=None, step_signal=None,
        inject_input=True,
    ).eval()  # fmt: skip


def line(*weights: float) -> tuple[object, Tensor, Tensor]:
    """Return a directed path that begins at the start 0, its weights and its first states."""
    nodes = len(weights) + 1
    ends = torch.arange(nodes)
    source, target = torch.cat([ends[:-1], ends]), torch.cat([ends[1:], ends])
    layout = layout_from_edges(source, target, num_src=nodes, num_dst=nodes)
    weight = torch.tensor([*weights, *[1.0] * nodes], dtype=torch.double)[:, None]
    return layout, weight, ends == 0


@pytest.mark.parametrize("size", [1e-300, 5e-324, 1e300])
def test_a_change_of_any_size_wakes_and_is_passed_on(size: float) -> None:
    messages = RegisterMessages()
    messages.set_operation("sum", smallest=True)
    layer, (layout, weight, is_start) = recurrence(messages), line(size, size, size)
    feat = messages.first_states(is_start)
    out, ponder = layer(layout, feat, edge_feat=weight)
    assert out[:, 0].tolist() == [0.0, size, 2 * size, 3 * size]
    changed = weight.clone()
    changed[0] = 0.0
    into = torch.tensor([1])
    out, ponder = layer.resume(ponder, layout, feat, edge_feat=changed, edges_into=into)
    assert out[:, 0].tolist() == [0.0, 0.0, size, 2 * size] and ponder.quiescent.item()


def test_a_sum_that_overflows_is_an_error() -> None:
    messages = RegisterMessages()
    messages.set_operation("sum", smallest=True)
    layer, (layout, weight, is_start) = recurrence(messages), line(1e308, 1e308)
    words = r"register 1e\+308 of node 1 and the weight 1e\+308 of its edge to node 2 .*scale the"
    refuses(words, layer, layout, messages.first_states(is_start), edge_feat=weight)
    messages.set_operation("max", smallest=True)
    out, _ = layer(layout, messages.first_states(is_start), edge_feat=weight)
    assert out[:, 0].tolist() == [0.0, 1e308, 1e308]


def test_pointers_without_a_start_are_none() -> None:
    edges = np.array([[0, 1, 2], [1, 0, 0]])
    graph = dgl_graph(edges, np.array([0.0, 0.0, 1.0]), np.zeros(3, bool))
    [prediction] = model().predict(graph)
    assert prediction.labels == [None] * 3 and not prediction.probabilities.any()


def test_pointers_along_edges_too_light_to_change_a_sum_form_a_tree() -> None:
    pairs = [(0, 3), (3, 2), (2, 1), (1, 2), (2, 3), (1, 3), (3, 1)]
    edges = np.array(pairs).T
    weights = np.array([1e15, *[0.01] * 6])  # their sum is 1e15 in float64
    [prediction] = model().predict(dgl_graph(edges, weights, np.arange(4) == 0))
    assert prediction.labels == [0, 3, 3, 0]
