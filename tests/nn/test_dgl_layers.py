from typing import Any

import pytest
import torch
from torch import nn

from graphut._dgl import dgl
from graphut.nn import DotGATConv
from tests.helpers import assert_same, gradients, normal, refuses
from tests.nn.cases import randomised

pytest.importorskip("dgl")
ENDS = ([0, 0, 1, 1, 2, 2, 3, 3, 3], [1, 2, 3, 0, 0, 1, 2, 1, 1])  # one edge twice
GRAPH = dgl.graph(ENDS, num_nodes=4)
BIPARTITE = dgl.heterograph({("u", "e", "v"): ([0, 2, 1, 0, 2], [1, 0, 0, 3, 2])})


def in_dgl(layer: DotGATConv, in_feats: Any) -> nn.Module:
    """Return DGL's own layer with the same weights."""
    heads, feats = layer.by_head
    other = dgl.nn.DotGatConv(in_feats, feats, heads).double()
    other.load_state_dict({k: v for k, v in layer.state_dict().items() if k.startswith("fc")})
    return other


@pytest.mark.parametrize(
    ("graph", "in_feats"), [(GRAPH, 6), (BIPARTITE, (6, 4))], ids=["homogeneous", "bipartite"]
)
def test_dot_gat_conv_equals_dgls(graph: Any, in_feats: Any) -> None:
    layer = randomised(DotGATConv(in_feats, 3, 2, bias=False))
    feat: Any = normal(4, 6)
    if isinstance(in_feats, tuple):
        feat = (normal(3, 6), normal(4, 4, seed=1))
    other, leaves = in_dgl(layer, in_feats), list(feat if isinstance(feat, tuple) else [feat])
    found, expected = (maps(graph, feat, get_attention=True) for maps in (layer, other))
    assert_same([*found, layer(graph, feat)], [*expected, expected[0]])
    assert_same(
        gradients(found, [*leaves, *layer.parameters()]),
        gradients(expected, [*leaves, *other.parameters()]),
    )


@pytest.mark.parametrize("in_feats", [6, (6, 4)], ids=["homogeneous", "bipartite"])
def test_dot_gat_conv_draws_the_weights_of_dgls(in_feats: Any) -> None:
    layers: list[nn.Module] = []
    for kind in (DotGATConv, dgl.nn.DotGatConv):
        torch.manual_seed(0)
        layers.append(kind(in_feats, 3, 2))
    mine, other = (layer.state_dict() for layer in layers)
    assert not mine.pop("bias").any()
    assert mine.keys() == other.keys()
    assert all(torch.equal(value, other[name]) for name, value in mine.items())
    torch.manual_seed(0)
    layers[0].reset_parameters()  # type: ignore[operator]
    torch.testing.assert_close(layers[0].state_dict(), {**other, "bias": torch.zeros(6)})


@pytest.mark.parametrize("out_feats", [3, 4], ids=["projected", "identity"])
def test_dot_gat_conv_adds_residual_and_bias_before_the_activation(out_feats: int) -> None:
    feat = normal(4, 8)
    layer = randomised(DotGATConv(8, out_feats, 2, residual=True, activation=torch.tanh))
    assert isinstance(layer.res_fc, nn.Identity if out_feats == 4 else nn.Linear)
    plain = in_dgl(layer, 8)(GRAPH, feat)
    more = layer.res_fc(feat) + layer.bias
    assert_same([layer(GRAPH, feat)], [torch.tanh(plain + more.view(4, 2, out_feats))])


def test_dot_gat_conv_has_the_arguments_of_gat_conv() -> None:
    torch.manual_seed(0)
    given = (8, 3, 2, 0.1, 0.2, 0.2, True, torch.relu, True, False)
    mine, theirs = DotGATConv(*given), dgl.nn.GATConv(*given)
    assert (mine.feat_drop.p, mine.attn_drop) == (theirs.feat_drop.p, theirs.attn_drop.p)
    assert mine.activation is torch.relu and mine.allow_zero_in_degree and mine.bias is None
    feat = torch.randn(4, 8)
    for layer in (mine, theirs):
        layer.set_allow_zero_in_degree(False)
        out, weights = layer(GRAPH, feat, torch.ones(9), True)
        assert (out.shape, weights.shape) == ((4, 2, 3), (9, 2, 1))
    wide = torch.randn(4, 5, 8)  # features with another dimension
    out, weights = mine(GRAPH, wide, get_attention=True)
    expected, theirs_weights = theirs(GRAPH, wide, get_attention=True)
    assert (out.shape, weights.shape) == (expected.shape, theirs_weights.shape)
    assert not torch.equal(mine(GRAPH, feat), mine(GRAPH, feat))  # in training it drops
    mine.eval()
    assert_same([mine(GRAPH, wide)[:, 3]], [mine(GRAPH, wide[:, 3])], 1e-6)


def test_dot_gat_conv_multiplies_by_edge_weights_after_the_softmax() -> None:
    layer, feat, factors = randomised(DotGATConv(8, 3, 2)), normal(4, 8), normal(9, seed=1)
    _, plain = layer(GRAPH, feat, get_attention=True)
    found, weights = layer(GRAPH, feat, factors, get_attention=True)
    assert_same([weights], [plain * factors[:, None, None]])
    values = layer.fc(feat).view(4, 2, 3)
    expected = dgl.ops.u_mul_e_sum(GRAPH, values, weights) + layer.bias.view(2, 3)
    assert_same([found, layer(GRAPH, feat, factors)], [expected, expected])


def test_dot_gat_conv_with_separate_projections() -> None:
    layer, feat = randomised(DotGATConv(8, 3, 2, share_projection=False)), normal(4, 8)
    key, value = layer.fc_src(feat).chunk(2, 1)
    shared = randomised(DotGATConv((6, 6), 3, 2, bias=False))
    for maps in (shared.fc_src, shared.fc_dst):
        maps.weight.data = torch.eye(6).double()
    _, weights = shared(GRAPH, (key, layer.fc_dst(feat)), get_attention=True)
    expected = dgl.ops.u_mul_e_sum(GRAPH, value.view(4, 2, 3), weights)
    assert_same([layer(GRAPH, feat)], [expected + layer.bias.view(2, 3)])
    wide = normal(4, 5, 8, seed=1)
    assert_same([layer(GRAPH, wide)[:, 3]], [layer(GRAPH, wide[:, 3])])


def test_dot_gat_conv_on_a_block() -> None:
    seeds = torch.tensor([2, 1])
    block = dgl.to_block(dgl.in_subgraph(GRAPH, seeds), seeds)
    layer, feat = randomised(DotGATConv(8, 3, 2, residual=True)), normal(4, 8)
    of_sources = feat[block.srcdata[dgl.NID]]
    expected = layer(GRAPH, feat)[seeds]
    assert_same([layer(block, of_sources)], [expected])
    assert_same([layer(block, (of_sources, feat[seeds]))], [expected])


def test_dot_gat_conv_on_nodes_without_in_edges() -> None:
    layer, feat = DotGATConv(8, 3, 2), torch.randn(3, 8)
    graph = dgl.graph(([0], [1]), num_nodes=3)
    refuses("no in-edge to attend to", layer, graph, feat)
    layer.set_allow_zero_in_degree(True)
    assert_same([layer(graph, feat)[[0, 2]]], [torch.zeros(2, 2, 3)])
    assert layer(dgl.graph(([], [])), feat[:0]).shape == (0, 2, 3)


TWO_SIDES = dgl.heterograph({("u", "e", "v"): ([0, 3, 1], [0, 1, 1])})
LAYER = randomised(DotGATConv(8, 3, 2, allow_zero_in_degree=True))


def test_dot_gat_conv_refuses_what_does_not_fit() -> None:
    refuses("'u' to 'v' nodes; pass a pair of features", LAYER, TWO_SIDES, normal(4, 8))
    refuses(r"shape \(4, 7\); pass one row of 8 features", LAYER, GRAPH, normal(4, 7))
    refuses(r"shape \(4, 5, 7\); pass one row of 8 features", LAYER, GRAPH, normal(4, 5, 7))
    refuses(r"shape \(4,\)", LAYER, GRAPH, normal(4))
    refuses("4 destination nodes", LAYER, GRAPH, (normal(4, 8), normal(3, 8)))
    refuses("source nodes are torch.float32", LAYER, GRAPH, normal(4, 8).float())
    refuses("out_feats must be at least 1, got 0", DotGATConv, 8, 0, 2)
