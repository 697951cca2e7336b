import pytest
import torch
from hypothesis import given

from graphut.attention import EdgeLayout, edge_attention
from graphut.attention.dropout import dropout_factors
from tests.attention.naive import GRAPHS, inputs, naive_attention
from tests.helpers import Pairs, assert_same, gradients, layout_of, multigraphs, normal, pairs_of


def check_against_loops(layout: EdgeLayout, everything: bool) -> None:
    tensors = list(inputs(layout, value_feats=4))
    pairs = pairs_of(layout)
    options, plain_options = {}, {}
    if everything:
        bias, scale = normal(len(pairs), 2, seed=4), normal(layout.num_dst, seed=5)
        tensors += [bias, scale]
        options = {"edge_bias": bias, "scale": scale, "dropout": 0.4, "seed": 9}
        factors = dropout_factors(torch.arange(len(pairs)), 2, 0.4, 9, torch.float64)
        plain_options = {"bias": bias, "scale": scale, "factors": factors}
    found = edge_attention(
        layout,
        *tensors[:3],
        **options,
        get_attention=True,
        allow_zero_in_degree=True,
        backend="dense",
    )
    expected = naive_attention(pairs, *tensors[:3], **plain_options)
    assert_same(found, expected)
    assert_same(gradients(found, tensors), gradients(expected, tensors))


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("graph", GRAPHS)
def test_dense_attention_is_the_definition(graph: str, everything: bool) -> None:
    check_against_loops(GRAPHS[graph], everything)


@given(multigraphs())
def test_dense_attention_is_the_definition_on_any_graph(graph: tuple[Pairs, int, int]) -> None:
    check_against_loops(layout_of(*graph), everything=True)


def test_dense_attention_leaves_out_edges_whose_bias_is_minus_infinity() -> None:
    pairs = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 1)]
    tensors = inputs(layout_of(pairs, 2, 2))
    bias = torch.tensor([0.0, -torch.inf, 1.0, -torch.inf, -1.0]).double().requires_grad_()
    found = edge_attention(layout_of(pairs, 2, 2), *tensors, edge_bias=bias, backend="dense")
    kept = [0, 2, 4]
    rest = layout_of([pairs[e] for e in kept], 2, 2)
    expected = edge_attention(rest, *tensors, edge_bias=bias[kept], backend="dense")
    assert_same([found], [expected])
    assert_same(gradients([found], [*tensors, bias]), gradients([expected], [*tensors, bias]))
