from __future__ import annotations

import pytest
import torch

from graphut.models.nodes import SentenceNodes
from graphut.sentences import sentence_graph
from graphut.topology import Topology, node_positions, parse, token_nodes, with_extra_nodes

SOURCES = [[5, 3, 4], [2]]
SPECS = ["complete", "star", "window:1|virtual:2", "binary_partition:1"]


def read(graph_spec: str, topology: Topology) -> SentenceNodes:
    graph = sentence_graph(SOURCES, encoder=graph_spec)
    return SentenceNodes.from_graph(graph, "source", topology)


@pytest.mark.parametrize("spec", SPECS)
def test_sentence_nodes_select_tokens_from_all_nodes(spec: str) -> None:
    topology = parse(spec)
    nodes = read(spec, topology)
    assert (nodes.token.tolist(), nodes.lengths.tolist()) == ([5, 3, 4, 2], [3, 1])
    first = nodes.first_states(nodes.token[:, None].double())
    assert torch.equal(first, with_extra_nodes(topology, nodes.token[:, None].double(), [3, 1]))
    rows = torch.arange(len(first))
    assert torch.equal(nodes.select_tokens(rows), token_nodes(topology, [3, 1]))


@pytest.mark.parametrize("spec", SPECS)
def test_positions_move_a_whole_sentence_by_an_offset(spec: str) -> None:
    nodes = read(spec, parse(spec))
    position = node_positions(parse(spec), [3, 1])
    assert nodes.positions(None) is nodes.position and torch.equal(nodes.position, position)
    first = parse(spec).num_nodes(3)
    moved = nodes.positions(torch.arange(4) + torch.tensor([[10], [20]])) - position
    assert moved.tolist() == [10] * first + [20] * (len(position) - first)
    assert nodes.expand(torch.tensor([5, 6])).tolist() == [5] * first + [6] * (
        len(position) - first
    )


def test_positions_interpolate_between_drawn_positions() -> None:
    nodes = read("window:1|virtual:2", parse("window:1|virtual:2"))
    drawn = torch.tensor([[3, 7, 8, 20], [0, 10, 11, 12]])
    assert nodes.positions(drawn).tolist() == [7, 8, 20, 3, -1, 10, 0, -10]
    star = read("star", parse("star"))
    assert star.positions(drawn).tolist() == [7, 8, 20, 8, 10, 10]
    assert star.positions(drawn, star.position + 0.5).tolist() == [7.5, 14, 26, 14, 10.5, 10.5]


@pytest.mark.parametrize(
    ("graph_spec", "spec"), [("star", "complete"), ("complete", "star"), ("virtual:2", "star")]
)
def test_from_graph_refuses_a_graph_of_another_topology(graph_spec: str, spec: str) -> None:
    with pytest.raises(ValueError, match=f"source nodes .* not those of .* '{spec}': make the"):
        read(graph_spec, parse(spec))
