from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphut._dgl import dgl
from graphut.nn import (
    AdaptiveRecurrence,
    EdgeIndexLayer,
    MultiHeadAttention,
    SeparableConvTransition,
    UniversalTransformerStep,
    from_edge_index,
)
from tests.helpers import assert_same, gradients, normal, pairs_of
from tests.nn.cases import build_case, engine, randomised

EDGES = torch.tensor([[3, 0, 0, 2, 1, 3, 0, 1], [0, 0, 1, 1, 2, 3, 1, 3]])  # one of them twice


def pygs(layer: MultiHeadAttention) -> Any:
    """PyG's own layer with the same weights, without the map of the heads' results."""
    torch_geometric = pytest.importorskip("torch_geometric")
    conv = torch_geometric.nn.TransformerConv
    other = conv(layer.in_feats, layer.head_feats, layer.num_heads, root_weight=False).double()
    halves = zip(layer.key_value.weight.chunk(2), layer.key_value.bias.chunk(2), strict=True)
    maps = [*halves, (layer.query.weight, layer.query.bias)]
    for mine, (weight, bias) in zip(
        (other.lin_key, other.lin_value, other.lin_query), maps, strict=True
    ):
        mine.weight.data, mine.bias.data = weight.data, bias.data
    return other


def heads_only(layer: MultiHeadAttention) -> MultiHeadAttention:
    """The layer with the results of its heads as they are."""
    layer.output.weight.data, layer.output.bias.data = (
        torch.eye(8).double(),
        torch.zeros(8).double(),
    )
    return layer


def test_edge_index_it_is_pygs_transformer_convolution() -> None:
    layer, x = heads_only(randomised(MultiHeadAttention(8, 2))), normal(4, 8)
    expected, (_, weights) = pygs(layer)(x, EDGES, return_attention_weights=True)
    found, mine = EdgeIndexLayer(layer)(x, EDGES, get_attention=True)
    assert_same([found, mine], [expected, weights])
    assert_same(gradients([found], [x]), gradients([expected], [x]))


def test_edge_index_it_is_pygs_on_a_bipartite_graph() -> None:
    layer = heads_only(randomised(MultiHeadAttention((5, 8), 2)))
    x = (normal(4, 5), normal(3, 8, seed=1))
    edges = EDGES[:, EDGES[1] < 3]
    assert_same([EdgeIndexLayer(layer)(x, edges)], [pygs(layer)(x, edges)])


def test_edge_index_edges_keep_their_order_and_direction() -> None:
    layout = from_edge_index(EDGES, 5)
    assert pairs_of(layout) == list(map(tuple, EDGES.T.tolist()))
    assert (layout.num_src, layout.num_dst) == (5, 5)
    assert layout.in_degrees.tolist() == [2, 3, 1, 2, 0]


def test_edge_index_a_recurrence_is_what_it_is_on_a_dgl_graph() -> None:
    case = build_case(graph=from_edge_index(EDGES, 4))
    graph = dgl.graph((EDGES[0], EDGES[1]), num_nodes=4)
    out, ponder = EdgeIndexLayer(case.layer)(case.feat, EDGES, positions=case.positions)
    expected = engine(case.layer, graph, case.feat, positions=case.positions)
    assert_same([out, ponder.steps, ponder.remainder, ponder.cost], expected)


def test_edge_index_a_batch_keeps_a_convolution_inside_its_graphs() -> None:
    step = UniversalTransformerStep(MultiHeadAttention(8, 2), SeparableConvTransition(8, 12))
    layer = EdgeIndexLayer(AdaptiveRecurrence(randomised(step), max_steps=2))
    x, loops = normal(5, 8), torch.arange(5).expand(2, 5)
    out, _ = layer(x, loops, batch=torch.tensor([0, 0, 1, 1, 1]))
    for nodes in (slice(0, 2), slice(2, 5)):
        size = nodes.stop - nodes.start
        alone, _ = layer(x[nodes], torch.arange(size).expand(2, size))
        assert_same([out[nodes]], [alone])


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (([[0], [1]], 2), TypeError, "must be an int64 tensor, got list"),
        ((EDGES.float(), 4), TypeError, "must be an int64 tensor, got torch.float32"),
        ((EDGES.T, 4), ValueError, r"must be \(2, E\), got shape \(8, 2\)"),
        ((EDGES, 3), ValueError, "src holds node 3, but there are 3 nodes"),
    ],
    ids=["list", "float", "transposed", "unknown-node"],
)
def test_edge_index_edges_that_are_none(arguments: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        from_edge_index(*arguments)


@pytest.mark.parametrize("batch", [torch.tensor([0, 1, 0, 1]), torch.tensor([0, 1])])
def test_edge_index_a_batch_that_does_not_fit(batch: Tensor) -> None:
    with pytest.raises(ValueError, match="sorted and have one entry for each of the 4 nodes"):
        from_edge_index(EDGES, 4, batch=batch)


def test_edge_index_a_batch_of_a_bipartite_graph() -> None:
    with pytest.raises(ValueError, match="leave it out"):
        from_edge_index(EDGES, (4, 4), batch=torch.zeros(4, dtype=torch.int64))
