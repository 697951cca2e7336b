from __future__ import annotations

import io
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphut._dgl import dgl
from graphut.nn import (
    AdaptiveRecurrence,
    ConvAsAttention,
    DotGATConv,
    EdgeIndexLayer,
    HaltingUnit,
    OutputOnly,
    PositionwiseTransition,
    ScheduledHalting,
    Threshold,
    UniversalTransformerStep,
)
from tests.helpers import assert_same, gradients, normal
from tests.nn.cases import FEATS, build_case, randomised

ENDS = ([0, 0, 1, 1, 2, 2, 3, 3, 3], [1, 2, 3, 0, 0, 1, 2, 1, 1])  # one edge twice
GRAPH = dgl.graph(ENDS, num_nodes=4)
BIPARTITE = dgl.heterograph({("u", "e", "v"): ([0, 2, 1, 0, 2], [1, 0, 0, 3, 2])})


def dgls(layer: DotGATConv, in_feats: Any) -> nn.Module:
    """DGL's own layer with the same maps."""
    heads, feats = layer.by_head
    other = dgl.nn.DotGatConv(in_feats, feats, heads).double()
    other.load_state_dict({k: v for k, v in layer.state_dict().items() if k.startswith("fc")})
    return other


@pytest.mark.parametrize(
    ("graph", "in_feats"), [(GRAPH, 6), (BIPARTITE, (6, 4))], ids=["homogeneous", "bipartite"]
)
def test_dot_gat_conv_it_is_dgls_dot_product_attention(graph: Any, in_feats: Any) -> None:
    layer = randomised(DotGATConv(in_feats, 3, 2, bias=False))
    feat: Any = normal(4, 6)
    if isinstance(in_feats, tuple):
        feat = (normal(3, 6), normal(4, 4, seed=1))
    other, leaves = dgls(layer, in_feats), list(feat if isinstance(feat, tuple) else [feat])
    found, expected = (maps(graph, feat, get_attention=True) for maps in (layer, other))
    assert_same([*found, layer(graph, feat)], [*expected, expected[0]])
    assert_same(
        gradients(found, [*leaves, *layer.parameters()]),
        gradients(expected, [*leaves, *other.parameters()]),
    )


@pytest.mark.parametrize("out_feats", [3, 4], ids=["mapped", "as-it-is"])
def test_dot_gat_conv_adds_residual_and_bias_before_the_activation(out_feats: int) -> None:
    feat = normal(4, 8)
    layer = randomised(DotGATConv(8, out_feats, 2, residual=True, activation=torch.tanh))
    assert isinstance(layer.res_fc, nn.Identity if out_feats == 4 else nn.Linear)
    plain = dgls(layer, 8)(GRAPH, feat)
    more = layer.res_fc(feat) + layer.bias
    assert_same([layer(GRAPH, feat)], [torch.tanh(plain + more.view(4, 2, out_feats))])


def test_dot_gat_conv_takes_gat_convs_arguments_in_their_places() -> None:
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
    wide = torch.randn(4, 5, 8)  # features with a dimension more
    out, weights = mine(GRAPH, wide, get_attention=True)
    expected, theirs_weights = theirs(GRAPH, wide, get_attention=True)
    assert (out.shape, weights.shape) == (expected.shape, theirs_weights.shape)
    mine.eval()
    assert_same([mine(GRAPH, wide)[:, 3]], [mine(GRAPH, wide[:, 3])], 1e-6)


def test_dot_gat_conv_weights_of_edges_multiply_after_the_softmax() -> None:
    layer, feat, factors = randomised(DotGATConv(8, 3, 2)), normal(4, 8), normal(9, seed=1)
    _, plain = layer(GRAPH, feat, get_attention=True)
    found, weights = layer(GRAPH, feat, factors, get_attention=True)
    assert_same([weights], [plain * factors[:, None, None]])
    values = layer.fc(feat).view(4, 2, 3)
    expected = dgl.ops.u_mul_e_sum(GRAPH, values, weights) + layer.bias.view(2, 3)
    assert_same([found, layer(GRAPH, feat, factors)], [expected, expected])


def test_dot_gat_conv_with_maps_of_their_own() -> None:
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


def test_dot_gat_conv_a_block_and_one_map_for_a_pair() -> None:
    seeds = torch.tensor([2, 1])
    block = dgl.to_block(dgl.in_subgraph(GRAPH, seeds), seeds)
    layer, feat = randomised(DotGATConv(8, 3, 2, residual=True)), normal(4, 8)
    of_sources = feat[block.srcdata[dgl.NID]]
    expected = layer(GRAPH, feat)[seeds]
    assert_same([layer(block, of_sources)], [expected])
    assert_same([layer(block, (of_sources, feat[seeds]))], [expected])


def test_dot_gat_conv_dropout_acts_in_training_alone() -> None:
    layer, feat = randomised(DotGATConv(8, 3, 2, 0.5, 0.5)), normal(4, 8)
    assert not torch.equal(layer(GRAPH, feat), layer(GRAPH, feat))
    layer.eval()
    assert torch.equal(layer(GRAPH, feat), layer(GRAPH, feat))


def test_dot_gat_conv_nodes_without_in_edges() -> None:
    layer, feat = DotGATConv(8, 3, 2), torch.randn(3, 8)
    graph = dgl.graph(([0], [1]), num_nodes=3)
    with pytest.raises(ValueError, match="no in-edge to attend to"):
        layer(graph, feat)
    layer.set_allow_zero_in_degree(True)
    assert_same([layer(graph, feat)[[0, 2]]], [torch.zeros(2, 2, 3)])
    assert layer(dgl.graph(([], [])), feat[:0]).shape == (0, 2, 3)


def test_dot_gat_conv_one_layer_for_each_edge_type() -> None:
    edges = {("a", "x", "b"): ([0, 1], [1, 0]), ("b", "y", "b"): ([0, 1], [1, 0])}
    graph, feat = dgl.heterograph(edges), {"a": normal(2, 8), "b": normal(2, 8, seed=1)}
    layers = {name: randomised(DotGATConv(8, 3, 2), seed=len(name)) for name in "xy"}
    found = dgl.nn.HeteroGraphConv(layers, aggregate="sum")(graph, feat)
    parts = [layers["x"](graph["x"], (feat["a"], feat["b"])), layers["y"](graph["y"], feat["b"])]
    assert_same([found["b"]], [parts[0] + parts[1]])


CONVS: dict[str, Any] = {
    "gat": lambda: dgl.nn.GATConv(FEATS, FEATS // 2, 2),
    "gin": lambda: dgl.nn.GINConv(nn.Linear(FEATS, FEATS)),
    "sage": lambda: dgl.nn.SAGEConv(FEATS, FEATS, "mean"),
}


def conv_step(name: str, norm: str = "post") -> UniversalTransformerStep:
    conv: Any = ConvAsAttention(CONVS[name](), FEATS)
    return randomised(UniversalTransformerStep(conv, PositionwiseTransition(FEATS, 12), norm=norm))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("name", CONVS)
def test_conv_as_attention_in_a_recurrence_equals_masks(name: str, norm: str) -> None:
    step, feat, depth = conv_step(name, norm), normal(4, FEATS), torch.tensor([3, 1, 4, 2])
    conv: Any = step.attention
    options: Any = {"halted": "frozen", "position_signal": None, "step_signal": None}
    layer = AdaptiveRecurrence(
        step, ScheduledHalting(depth), rule=Threshold(0.5), max_steps=5, **options
    )
    out, ponder = layer(GRAPH, feat)
    states = feat
    for t in range(1, 5):
        if norm == "post":
            rows = step.attention_norm(states + conv.conv(GRAPH, states).flatten(1))
            rows = step.transition_norm(rows + step.transition.layers(rows))
        else:
            rows = states + conv.conv(GRAPH, step.attention_norm(states)).flatten(1)
            rows = rows + step.transition.layers(step.transition_norm(rows))
        states = torch.where((depth >= t)[:, None], rows, states)
    assert torch.equal(ponder.steps, depth)
    expected, weights = step.readout(states), [feat, *step.parameters()]
    assert_same([out], [expected])
    assert_same(gradients([out], weights), gradients([expected], weights))
    assert int(ponder.computed) == 10 and 0 < ponder.flops < ponder.all_flops


@pytest.mark.parametrize("name", ["pool", "max"])
def test_conv_as_attention_where_only_a_node_without_in_edges_is_left(name: str) -> None:
    graph = dgl.graph(([0, 1], [1, 0]), num_nodes=3)
    gin = dgl.nn.GINConv(nn.Linear(FEATS, FEATS), "max")
    conv = gin if name == "max" else dgl.nn.SAGEConv(FEATS, FEATS, "pool")
    step = randomised(
        UniversalTransformerStep(ConvAsAttention(conv, FEATS), PositionwiseTransition(FEATS, 12))
    )
    feat, depth = normal(3, FEATS), torch.tensor([1, 1, 2])
    layer = AdaptiveRecurrence(step, ScheduledHalting(depth), rule=Threshold(0.5), max_steps=2)
    out = layer(graph, feat)[0]
    layer.halted = "running"  # everyone is computed
    assert_same([out], [layer(graph, feat)[0]])
    out.sum().backward()


@pytest.mark.parametrize("name", CONVS)
def test_conv_as_attention_under_autocast_keeps_its_own_dtype(name: str) -> None:
    layer = AdaptiveRecurrence(conv_step(name).float(), max_steps=2)
    feat = normal(4, FEATS).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(GRAPH, feat)[0]
    out.float().sum().backward()
    assert_same([out.float()], [layer(GRAPH, feat)[0]], 5e-2)


def test_conv_as_attention_of_a_layer_without_parameters() -> None:
    step: Any = UniversalTransformerStep(
        ConvAsAttention(dgl.nn.GINConv(None), FEATS), PositionwiseTransition(FEATS, 12)
    )
    layer = AdaptiveRecurrence(step.double(), HaltingUnit(FEATS).double(), max_steps=2)
    assert layer(GRAPH, normal(4, FEATS))[0].shape == (4, FEATS)


def test_conv_as_attention_calls_hooks_and_draws_anew() -> None:
    step, feat = conv_step("gat"), normal(4, FEATS)
    plain, calls = step(GRAPH, feat), []
    step.attention.register_forward_hook(lambda *_: calls.append(1))
    assert_same([step(GRAPH, feat)], [plain])
    assert calls == [1]
    before = [weight.clone() for weight in step.attention.parameters()]
    step.attention.reset_parameters()
    assert not any(
        torch.equal(a, b) for a, b in zip(before, step.attention.parameters(), strict=True)
    )


def test_conv_as_attention_refuses_what_the_layer_does_not_know() -> None:
    step, feat = conv_step("gin"), normal(4, FEATS)
    with pytest.raises(ValueError, match="GINConv in the place of attention has no edge_bias"):
        step(GRAPH, feat, edge_bias=torch.zeros(9))
    with pytest.raises(ValueError, match="has no get_attention"):
        step(GRAPH, feat, get_attention=True)


def record_of(layer: OutputOnly) -> tuple[Tensor, Tensor]:
    assert layer.ponder is not None
    return layer.ponder.steps, layer.ponder.cost


def test_output_only_recurrences_in_a_row_and_by_edge_type() -> None:
    layers = [OutputOnly(build_case(halted=halted).layer) for halted in ("copied", "stale")]
    feat = normal(4, FEATS)
    found = dgl.nn.Sequential(*layers)(GRAPH, feat)
    first, ponder = layers[0].layer(GRAPH, feat)
    second, later = layers[1].layer(GRAPH, first)
    assert_same([found, *record_of(layers[0])], [second, ponder.steps, ponder.cost])
    assert_same(record_of(layers[1]), [later.steps, later.cost])
    (found.sum() + layers[0].ponder.cost).backward()  # type: ignore[union-attr]
    assert layers[0].layer.halting.linear.weight.grad.any()
    hetero = dgl.nn.HeteroGraphConv({"_E": layers[0]}, aggregate="sum")
    assert_same([hetero(GRAPH, {"_N": feat})["_N"]], [first])
    by_edges = OutputOnly(EdgeIndexLayer(layers[0].layer))
    assert_same([by_edges(feat, torch.tensor(ENDS))], [first])


def test_output_only_copies_and_files_leave_the_record_out() -> None:
    layer, feat = OutputOnly(build_case().layer), normal(4, FEATS)
    out, file = layer(GRAPH, feat), io.BytesIO()
    torch.save(layer, file)
    assert layer.ponder is not None and deepcopy(layer).ponder is None
    assert_same([deepcopy(layer)(GRAPH, feat)], [out])


def test_conv_as_attention_refuses_a_layer_that_counts_out_edges() -> None:
    with pytest.raises(ValueError, match=r"norm='both' divides by the out-degrees of sources"):
        ConvAsAttention(nn.Sequential(dgl.nn.GraphConv(8, 8)), 8)
    ConvAsAttention(dgl.nn.GraphConv(8, 8, norm="right"), 8)
