"""The layers on the edge types of a heterograph, taken as `graph[etype]`."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphut._dgl import DGLGraph, dgl
from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    UniversalTransformerStep,
)
from tests.helpers import assert_same, normal
from tests.nn.cases import randomised

CITES = ([0, 1, 2, 3, 0, 3, 2], [0, 1, 2, 3, 1, 1, 0])
WRITES = ([0, 1, 1, 2, 0], [0, 0, 1, 3, 2])
PAPERS, AUTHORS = normal(4, 8), normal(3, 6, seed=1)


def papers_and_authors() -> DGLGraph:
    return dgl.heterograph(
        {("paper", "cites", "paper"): CITES, ("author", "writes", "paper"): WRITES},
        num_nodes_dict={"author": 3, "paper": 4},
    )


def recurrence(cross: bool = False) -> AdaptiveRecurrence:
    step = UniversalTransformerStep(
        MultiHeadAttention(8, 2),
        PositionwiseTransition(8, 12, activation=nn.GELU()),
        cross_attention=MultiHeadAttention((6, 8), 2) if cross else None,
    )
    return randomised(AdaptiveRecurrence(step, HaltingUnit(8), max_steps=5))


def test_each_layer_on_one_edge_type_is_what_it_is_on_those_edges_alone() -> None:
    graph, alone = papers_and_authors(), dgl.graph(CITES, num_nodes=4)
    layer, bias = recurrence(), normal(7, 2, seed=2)
    for part in (layer.step.attention, layer.step):
        expected = part(alone, PAPERS, edge_bias=bias)
        assert_same([part(graph["cites"], PAPERS, edge_bias=bias)], [expected])
    out, ponder = layer(graph["cites"], PAPERS, edge_bias=bias)
    expected, alike = layer(alone, PAPERS, edge_bias=bias)
    assert_same([out, ponder.remainder], [expected, alike.remainder])


def test_depth_becomes_data_of_its_node_type() -> None:
    graph = papers_and_authors()
    _, ponder = recurrence()(graph["cites"], PAPERS)
    graph.nodes["paper"].data["steps"] = ponder.steps
    assert graph["cites"].ndata["steps"].tolist() == ponder.steps.tolist()
    assert len(ponder.steps.unique()) > 1


def test_papers_take_steps_among_papers_and_look_at_their_authors() -> None:
    graph, layer = papers_and_authors(), recurrence(cross=True)
    out, ponder = layer(graph["cites"], PAPERS, cross=(graph["writes"], AUTHORS))
    without = AUTHORS * torch.tensor([[1.0], [1.0], [0.0]])  # author 2 wrote paper 3
    other, _ = layer(graph["cites"], PAPERS, cross=(graph["writes"], without))
    assert out.shape == PAPERS.shape and ponder.steps.shape == (4,)
    assert [bool(row.any()) for row in (out - other).abs() > 1e-6] == [False, True, False, True]


def test_steps_ask_for_one_type_of_nodes() -> None:
    graph = papers_and_authors()
    with pytest.raises(ValueError, match="'author' to 'paper' nodes; a step needs a graph over"):
        recurrence()(graph["writes"], normal(3, 8))


@pytest.mark.parametrize("part", ["attention", "step", "recurrence"])
def test_a_graph_of_several_edge_types_is_to_be_taken_apart(part: str) -> None:
    layer = recurrence()
    chosen = {"attention": layer.step.attention, "step": layer.step, "recurrence": layer}[part]
    with pytest.raises(ValueError, match=r"\('writes', 'cites'\); choose one: graph\['writes'\]"):
        chosen(papers_and_authors(), PAPERS)


def test_steps_and_recurrences_in_dgls_own_heterograph_module() -> None:
    graph, layer = papers_and_authors(), recurrence()
    one_type = graph.edge_type_subgraph(["cites"])
    only = {"aggregate": lambda outs, _: outs[0]}
    found = dgl.nn.HeteroGraphConv({"cites": layer.step}, **only)(one_type, {"paper": PAPERS})
    assert_same([found["paper"]], [layer.step(graph["cites"], PAPERS)])
    found = dgl.nn.HeteroGraphConv({"cites": layer}, **only)(one_type, {"paper": PAPERS})
    assert_same([found["paper"][0]], [layer(graph["cites"], PAPERS)[0]])


def test_a_pair_is_of_sources_and_the_first_of_them() -> None:
    graph, layer = papers_and_authors()["cites"], recurrence()
    for part in (layer, layer.step):
        with pytest.raises(ValueError, match="4 sources and of 4 other destinations"):
            part(graph, (PAPERS, PAPERS.flip(0)))
