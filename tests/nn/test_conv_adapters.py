from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphut._dgl import dgl
from graphut.nn import (
    AdaptiveConv,
    AdaptivePropagation,
    AdaptiveRecurrence,
    ConvAsAttention,
    HaltingUnit,
    LayerAsConv,
    MultiHeadAttention,
    NeighborMean,
    PositionwiseTransition,
    ScheduledHalting,
    Threshold,
    UniversalTransformerStep,
    from_edge_index,
)
from tests.helpers import assert_same, gradients, normal, pairs_of, refuses
from tests.nn.cases import FEATS, Case, build_case, randomised, run_step, same_as_dense

pytest.importorskip("dgl")
ENDS = ([0, 0, 1, 1, 2, 2, 3, 3, 3], [1, 2, 3, 0, 0, 1, 2, 1, 1])  # one edge twice
GRAPH, EDGES = dgl.graph(ENDS, num_nodes=4), torch.tensor(ENDS)


# LayerAsConv


def record_of(layer: LayerAsConv) -> tuple[Tensor, Tensor]:
    return layer.ponder.steps, layer.ponder.cost


def test_layer_as_conv_in_dgls_sequential() -> None:
    layers = [LayerAsConv(build_case(halted=halted).layer) for halted in ("copied", "stale")]
    feat = normal(4, FEATS)
    found = dgl.nn.Sequential(*layers)(GRAPH, feat)
    first, ponder = layers[0].layer(GRAPH, feat)
    second, later = layers[1].layer(GRAPH, first)
    assert_same([found, *record_of(layers[0])], [second, ponder.steps, ponder.cost])
    assert_same(record_of(layers[1]), [later.steps, later.cost])
    (found.sum() + layers[0].ponder.cost).backward()  # type: ignore[union-attr]
    assert layers[0].layer.halting.linear.weight.grad.any()


def test_layer_as_conv_in_pygs_sequential() -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    layers = [LayerAsConv(build_case(halted=halted).layer) for halted in ("copied", "stale")]
    feat = normal(4, FEATS)
    found = pyg.Sequential("x, edge_index", [(each, "x, edge_index -> x") for each in layers])
    assert_same([found(feat, EDGES)], [dgl.nn.Sequential(*layers)(GRAPH, feat)])


def test_layer_as_conv_accepts_the_arguments_of_dgl_and_of_pyg() -> None:
    layer, feat = LayerAsConv(build_case(edge_dim=3).layer), normal(4, FEATS)
    edge_feat = normal(9, 3, seed=1)
    options: dict[str, Any] = {"positions": torch.arange(1, 5), "get_attention": True}
    expected, ponder, weights = layer.layer(GRAPH, feat, edge_feat=edge_feat, **options)
    for out, found in (
        layer(GRAPH, feat, edge_feat=edge_feat, **options),
        layer(feat, EDGES, edge_feat, **options),
        layer(x=feat, edge_index=EDGES, edge_attr=edge_feat, **options),
    ):
        assert_same([out, *found], [expected, *weights])
        assert_same(record_of(layer), [ponder.steps, ponder.cost])


def test_layer_as_conv_of_a_bipartite_graph() -> None:
    layer = randomised(MultiHeadAttention((5, 8), 2, allow_zero_in_degree=True))
    edges, x = torch.tensor([[3, 0, 0, 2], [0, 0, 1, 1]]), (normal(4, 5), normal(3, 8, seed=1))
    assert_same([LayerAsConv(layer)(x, edges)], [layer(from_edge_index(edges, (4, 3)), x)])


def test_layer_as_conv_on_a_subgraph_that_pyg_sampled() -> None:
    utils = pytest.importorskip("torch_geometric.utils")
    attention = MultiHeadAttention(FEATS, 2, allow_zero_in_degree=True)  # for the outermost nodes
    step = randomised(UniversalTransformerStep(attention, PositionwiseTransition(FEATS, 12)))
    halting = randomised(HaltingUnit(FEATS), seed=58)
    conv = LayerAsConv(AdaptiveRecurrence(step, halting, max_steps=2))
    edges = (30 * torch.rand(2, 60, generator=torch.Generator().manual_seed(0))).long()
    x, seeds = normal(30, FEATS), torch.tensor([2, 7, 11])
    nodes, sampled, place, _ = utils.k_hop_subgraph(seeds, 2, edges, relabel_nodes=True)
    assert_same([conv(x[nodes], sampled)[place]], [conv(x, edges)[seeds]])


# from_edge_index

INDEX = torch.tensor([[3, 0, 0, 2, 1, 3, 0, 1], [0, 0, 1, 1, 2, 3, 1, 3]])  # one edge twice


def test_from_edge_index_keeps_order_and_direction_of_edges() -> None:
    layout = from_edge_index(INDEX, 5)
    assert pairs_of(layout) == list(map(tuple, INDEX.T.tolist()))
    assert (layout.num_src, layout.num_dst) == (5, 5)
    assert layout.in_degrees.tolist() == [2, 3, 1, 2, 0]


# ConvAsAttention


def pyg_conv(name: str, *args: Any, **options: Any) -> nn.Module:
    conv: nn.Module = getattr(pytest.importorskip("torch_geometric.nn"), name)(*args, **options)
    return conv


CONVS: dict[str, Any] = {
    "gat": lambda: dgl.nn.GATConv(FEATS, FEATS // 2, 2),
    "gin": lambda: dgl.nn.GINConv(nn.Linear(FEATS, FEATS)),
    "sage": lambda: dgl.nn.SAGEConv(FEATS, FEATS, "mean"),
    "graph_both": lambda: dgl.nn.GraphConv(FEATS, FEATS),
    "graph_left": lambda: dgl.nn.GraphConv(FEATS, FEATS, norm="left"),
    "pool": lambda: dgl.nn.SAGEConv(FEATS, FEATS, "pool"),
    "max": lambda: dgl.nn.GINConv(nn.Linear(FEATS, FEATS), "max"),
    "empty": lambda: dgl.nn.GINConv(None),  # no parameters
    "pyg_gcn": lambda: pyg_conv("GCNConv", FEATS, FEATS),
    "pyg_gcn_improved": lambda: pyg_conv("GCNConv", FEATS, FEATS, improved=True, bias=False),
    "pyg_gcn_plain": lambda: pyg_conv("GCNConv", FEATS, FEATS, normalize=False),
    "pyg_gat": lambda: pyg_conv("GATConv", FEATS, FEATS // 2, 2, add_self_loops=False),
    "pyg_gatv2": lambda: pyg_conv("GATv2Conv", FEATS, FEATS // 2, 2, add_self_loops=False),
    "pyg_gin": lambda: pyg_conv("GINConv", nn.Linear(FEATS, FEATS)),
    "pyg_transformer": lambda: pyg_conv("TransformerConv", FEATS, FEATS // 2, 2),
    "pyg_graph": lambda: pyg_conv("GraphConv", FEATS, FEATS),
    "pyg_edge": lambda: pyg_conv("EdgeConv", nn.Linear(2 * FEATS, FEATS)),
    "pyg_sage": lambda: pyg_conv("SAGEConv", FEATS, FEATS, aggr="max"),
    "pyg_mean": lambda: pyg_conv("SAGEConv", FEATS, FEATS),
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
    found = conv.conv(feat, EDGES) if "pyg" in name else conv.conv(GRAPH, feat)
    assert_same([conv(GRAPH, feat)], [found.flatten(1)])
    assert torch.equal(same_as_dense(Case(layer, GRAPH, feat)), depth)
    _, ponder = layer(GRAPH, feat)
    assert int(ponder.computed) == 10 and 0 < ponder.flops < ponder.all_flops


@pytest.mark.parametrize("name", ["gat", "pool", "max", "empty", "pyg_sage"])
def test_conv_as_attention_where_no_edges_are_left(name: str) -> None:
    graph = dgl.graph(([0, 1], [1, 0]), num_nodes=3)
    step = conv_step(name)
    if name == "gat":
        step.attention.conv.set_allow_zero_in_degree(True)  # type: ignore[union-attr, operator]
    feat, depth = normal(3, FEATS), torch.tensor([1, 1, 2])
    layer = AdaptiveRecurrence(step, ScheduledHalting(depth), rule=Threshold(0.5), max_steps=2)
    out = layer(graph, feat)[0]
    layer.halted = "running"  # all nodes are computed
    assert_same([out], [layer(graph, feat)[0]])
    out.sum().backward()
    nothing = dgl.graph(([], []))
    layer.halting = HaltingUnit(FEATS).double()
    assert layer(nothing, feat[:0])[0].shape == (0, FEATS)


@pytest.mark.parametrize("name", ["gat", "sage", "pyg_gat"])
def test_conv_as_attention_under_autocast_keeps_its_own_dtype(name: str) -> None:
    layer = AdaptiveRecurrence(conv_step(name).float(), max_steps=2)
    feat = normal(4, FEATS).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(GRAPH, feat)[0]
    out.float().sum().backward()
    assert_same([out.float()], [layer(GRAPH, feat)[0]], 5e-2)


def test_conv_as_attention_calls_hooks_and_resets_its_parameters() -> None:
    step, feat = conv_step("gat"), normal(4, FEATS)
    plain, calls = run_step(step, GRAPH, feat), []
    step.attention.register_forward_hook(lambda *_: calls.append(1))
    assert_same([run_step(step, GRAPH, feat)], [plain])
    assert calls == [1]
    before = [weight.clone() for weight in step.attention.parameters()]
    step.attention.reset_parameters()
    assert not any(
        torch.equal(a, b) for a, b in zip(before, step.attention.parameters(), strict=True)
    )


def test_conv_as_attention_names_a_value_that_is_not_finite() -> None:
    step, feat, weight = conv_step("gin"), normal(4, FEATS).detach(), torch.ones(9).double()
    feat[2, 1], weight[7] = torch.nan, torch.inf
    refuses(r"feat\[2, 1\] is nan: it must be finite", step.attention, GRAPH, feat)
    step.transition.layers[-1].bias.data[0] = torch.nan
    with pytest.raises(ValueError, match=r"feat\[0, 0\] is nan: it must be finite"):
        AdaptiveRecurrence(step, max_steps=2, step_signal=None)(GRAPH, normal(4, FEATS))
    gcn = conv_step("pyg_gcn").attention
    refuses(r"edge_weight\[7\] is inf", gcn, GRAPH, normal(4, FEATS), edge_weight=weight)
    refuses(r"edge_weight must be \(9,\), .* got \(9, 2\)", gcn, GRAPH, normal(4, FEATS),
            edge_weight=torch.ones(9, 2))  # fmt: skip


@pytest.mark.parametrize("name", ["pyg_gcn", "pyg_gcn_improved", "graph_both", "graph_right"])
def test_conv_as_attention_gives_edge_weights_to_layers_that_divide_by_degrees(name: str) -> None:
    conv: Any = pyg_conv("GCNConv", FEATS, FEATS, improved="improved" in name)
    if name.startswith("graph"):
        conv = dgl.nn.GraphConv(FEATS, FEATS, norm=name[6:])
    conv, feat, weight = conv.double(), normal(4, FEATS), normal(9, seed=1).square() + 0.1
    wanted = conv(feat, EDGES, weight) if "pyg" in name else conv(GRAPH, feat, edge_weight=weight)
    adapter, frontier, inputs = ConvAsAttention(conv, FEATS), torch.tensor([1, 3]), [feat, weight]
    found = adapter(GRAPH, feat, edge_weight=weight)
    part = adapter(GRAPH, feat, edge_weight=weight, frontier=frontier)
    assert_same([found, part], [wanted, wanted[frontier]])
    assert_same(gradients([found], inputs), gradients([wanted], inputs))


def test_conv_as_attention_of_a_layer_without_weights_keeps_the_dtype() -> None:
    conv, feat = dgl.nn.GraphConv(FEATS, FEATS, weight=False, bias=False), torch.ones(4, FEATS)
    assert_same([ConvAsAttention(conv, FEATS)(GRAPH, feat)], [conv(GRAPH, feat)], 1e-6)


def test_conv_as_attention_does_what_the_layer_does() -> None:
    """A convolution with another flow, other sums or hooks is computed as it is, or refused."""
    pyg, feat, adapt = pytest.importorskip("torch_geometric.nn"), X.float(), ConvAsAttention
    for kind in ("GCNConv", "SAGEConv", "GraphConv"):
        conv = getattr(pyg, kind)(8, 8, flow="target_to_source")
        refuses("flow='target_to_source': leave flow out, and flip the edges", adapt, conv, 8)
    refuses("GCNConv takes one tensor of features", adapt, pyg.GCNConv(8, 8, aggr="max"), 8)

    class Twice(dgl.nn.GraphConv):
        def forward(self, *args: Any, **options: Any) -> Tensor:
            out: Tensor = 2 * super().forward(*args, **options)
            return out

    class GCNConv(nn.Linear):
        def forward(self, pair: Any, edges: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(pair[1])

    refuses("GraphConv with norm='both'|Twice", adapt, Twice(8, 8), 8)
    twice = Twice(8, 8, norm="right")
    assert_same([adapt(twice, 8)(GRAPH, feat)], [twice(GRAPH, feat)], 1e-6)
    adapt(GCNConv(8, 8), 8)  # a class of one's own, for blocks of DGL
    sage = pyg.SAGEConv(8, 8)
    sage.register_message_forward_hook(lambda module, inputs, out: 3 * out)
    assert_same([adapt(sage, 8)(GRAPH, feat)], [sage(feat, EDGES)], 1e-6)
    gcn = pyg.GCNConv(8, 8)
    gcn.register_forward_hook(lambda *_: None)
    refuses("hooks of GCNConv do not run in a step", adapt(gcn, 8), GRAPH, feat)


def test_gcn_conv_takes_weights_that_are_integers() -> None:
    conv, weight = AdaptiveConv(8, 8, conv=pyg_conv("GCNConv", 8, 8)).eval(), torch.arange(1, 10)
    feat = torch.randn(4, 8)
    found = [conv(feat, EDGES, edge_weight=each) for each in (weight, weight.float())]
    assert_same([found[0]], [found[1]], 1e-6)


def test_calls_of_several_threads_read_their_own_edges() -> None:
    conv, feat = AdaptivePropagation(2).eval(), normal(50, 4).detach()
    graphs = [torch.randint(50, (2, 200)) for _ in range(4)]
    wanted = [conv(feat, edges) for edges in graphs]

    def call(place: int) -> bool:
        found = [conv(feat, graphs[place]) for _ in range(100)]
        return all(torch.equal(each, wanted[place]) for each in found)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(4)))


def test_edges_of_a_call_in_inference_mode_serve_training_later() -> None:
    conv = AdaptiveConv(6, 8, 2, edge_dim=3, add_self_loops=False)
    feat, edge_attr = torch.randn(4, 6), torch.randn(9, 3)
    with torch.inference_mode():
        conv(feat, EDGES, edge_attr)
    conv(feat, EDGES, edge_attr).sum().backward()


# Refused arguments.

X, LOOPS = normal(4, 8), "node 0, 1.*torch_geometric.utils.add_self_loops"


def in_conv(*args: Any) -> Any:
    return LayerAsConv(randomised(MultiHeadAttention(8, 2)))(*args)


def with_batch(*ids: float, nodes: Any = 4) -> Any:
    return from_edge_index(INDEX, nodes, batch=torch.tensor(ids))


def test_adapters_refuse_a_layer_of_pyg_with_another_width() -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    for conv in (pyg.GATConv(4, 8, add_self_loops=False), pyg.GCNConv(4, 8)):
        refuses("Conv reads 4 features, .* has 8: .*in_channels=8", ConvAsAttention, conv, 8)
    ConvAsAttention(pyg.GATConv(-1, 8, add_self_loops=False), 8)


def test_adapters_refuse_what_does_not_fit() -> None:
    adapt = partial(ConvAsAttention, feats=8)
    refuses(r"x must be \(N, F\).* got shape \(1, 4, 8\)", in_conv, X[None], EDGES)
    refuses("refers to source node 1, but x has only 1 row", in_conv, X[:1], EDGES)
    refuses("refers to source node -1, but x has only 4 row", in_conv, X, EDGES - 1)
    refuses("refers to target node 3, but x has only 3 row", in_conv, (X, X[:3]), EDGES)
    refuses("got no edge_dim and features of shape", in_conv, X, EDGES, torch.ones(9, 3))
    refuses(LOOPS, in_conv, X, EDGES[:, 1:3])
    refuses("must be an int64 tensor, got torch.float32", from_edge_index, INDEX.float(), 4)
    refuses(r"must be \(2, E\), got shape \(8, 2\)", from_edge_index, INDEX.T, 4)
    refuses("be sorted, .* 4 entries, 1 of them below", with_batch, 0, 1, 0, 1)
    refuses("entry for each of the 4 nodes; got 2 entries", with_batch, 0, 1)
    refuses("batch must be a 1-D int64 tensor, got", with_batch, 0.0, 0.0)
    refuses("batch must be omitted for a bipartite graph", with_batch, 0, nodes=(4, 4))
    for n in (1, 3):
        conv = ConvAsAttention(dgl.nn.GATConv(8, n, 1), 8).double()
        refuses(rf"GATConv returned {n} features .*; a state has 8", conv, GRAPH, X)
    for name, given in {
        "edge_bias": {"edge_bias": torch.zeros(9)},
        "edge_weight": {"edge_weight": torch.ones(9)},
        "get_attention": {"get_attention": True},
    }.items():
        refuses(f"GINConv.* support {name}", conv_step("gin").attention, GRAPH, X, **given)
    refuses("conv must be a convolution of .*got <class '.*GINConv", adapt, dgl.nn.GINConv)
    refuses(r"with one step, .*got AdaptiveConv\(8, 8", adapt, AdaptiveConv(8, 8))
    refuses(r"with one step, .*got NeighborMean\(", adapt, NeighborMean(8))
    refuses("norm='both' divides by the out-", adapt, nn.Sequential(dgl.nn.GraphConv(8, 8)))
    refuses("ChebConv takes one tensor .* SAGEConv", adapt, pyg_conv("ChebConv", 8, 8, 2))
    refuses(
        "GCNConv needs degrees, which a block does not know",
        conv_step("pyg_gcn").attention,
        from_edge_index(EDGES[:, :0], (4, 2)),
        X,
    )
    refuses("GATConv adds .* add_self_loops=False", adapt, pyg_conv("GATConv", 8, 8))
    refuses(
        "DirGNNConv reads out-edges too", adapt, pyg_conv("DirGNNConv", pyg_conv("SAGEConv", 8, 8))
    )
    for conv in (pyg_conv("APPNP", 10, 0.1), pyg_conv("SGConv", 8, 8), dgl.nn.APPNPConv(10, 0.1)):
        refuses(f"{type(conv).__name__} .* use graphut.nn.AdaptivePropagation", adapt, conv)
    ConvAsAttention(dgl.nn.GraphConv(8, 8, norm="right"), 8)
    ConvAsAttention(LayerAsConv(MultiHeadAttention(8, 2)), 8)
