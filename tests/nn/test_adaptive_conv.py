import pickle
from copy import deepcopy
from types import SimpleNamespace
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
    EventDriven,
    FixedDepth,
    HeteroAdaptiveConv,
    MessageAggregation,
    MultiHeadAttention,
    NeighborMean,
    PositionwiseTransition,
    RegisterMessages,
    UniversalTransformerStep,
    from_edge_index,
)
from tests.helpers import assert_same, gradients, normal, refuses

EDGES = torch.tensor([[0, 1, 2, 3, 3, 0, 4], [1, 2, 0, 1, 3, 2, 2]])
X, EDGE_ATTR = normal(6, 5), normal(7, 3, seed=1)


def build(*sizes: Any, max_steps: int = 4, **options: Any) -> AdaptiveConv:
    torch.manual_seed(0)
    return AdaptiveConv(*sizes, heads=2, max_steps=max_steps, **options).double()


def with_loops(edges: Tensor, nodes: int) -> Tensor:
    kept = edges[:, edges[0] != edges[1]]
    return torch.cat([kept, torch.arange(nodes).expand(2, -1)], 1)


def test_adaptive_conv_is_a_recurrence_on_mapped_features_with_self_loops() -> None:
    conv = build(5, 8)
    found = conv(X, EDGES)
    layout = from_edge_index(with_loops(EDGES, 6), 6)
    expected, ponder = conv.recurrence(layout, conv.input_map(X).relu())
    assert_same([found], [expected])
    assert torch.equal(conv.ponder.steps, ponder.steps)
    assert len(ponder.steps.unique()) > 1 or ponder.cost > 1
    inputs = [X, *conv.parameters()]
    assert_same(*(gradients([out, p.cost], inputs) for out, p in
                  [(found, conv.ponder), (expected, ponder)]))  # fmt: skip
    plain = build(5, 8, add_self_loops=False)
    expected, _ = plain.recurrence(from_edge_index(EDGES, 6), plain.input_map(X).relu())
    assert_same([plain(X, EDGES)], [expected])  # node 5 reads nothing


def test_adaptive_conv_gives_new_self_loops_no_edge_features() -> None:
    conv = build(5, 8, edge_dim=3)
    loop = EDGES[0] == EDGES[1]
    of_loops = torch.zeros(6, 3).double().index_put((EDGES[0, loop],), EDGE_ATTR[loop])
    rows = torch.cat([EDGE_ATTR[~loop], of_loops])
    layout = from_edge_index(with_loops(EDGES, 6), 6)
    expected, _ = conv.recurrence(layout, conv.input_map(X).relu(), edge_feat=rows)
    assert_same([conv(X, EDGES, EDGE_ATTR)], [expected])
    assert_same([conv(dgl.graph((*EDGES,), num_nodes=6), X, EDGE_ATTR)], [expected])


def test_adaptive_conv_takes_graphs_and_blocks_of_dgl() -> None:
    conv, graph = build(5, 8), dgl.graph((*EDGES,), num_nodes=6)
    assert_same([conv(graph, X)], [conv(X, EDGES)])
    block = dgl.to_block(graph, torch.arange(6))
    assert_same([conv(block, X[block.srcdata[dgl.NID]])], [conv(X, EDGES)])
    some = dgl.to_block(
        dgl.in_subgraph(graph, [2]), torch.tensor([2])
    )  # other nodes keep their first states
    sources = [2, *EDGES[0, EDGES[1] == 2].tolist()]
    star = torch.tensor([[place, 0] for place in range(len(sources))]).T
    states = conv.eval().input_map(X[sources]).relu()
    expected, _ = conv.recurrence(from_edge_index(star, (len(sources), 1)), states)
    assert_same([conv(some, X[some.srcdata[dgl.NID]])], [expected])


def test_steps_refuse_edges_between_two_types() -> None:
    graph = dgl.heterograph({("user", "likes", "item"): ([5, 4, 0], [0, 0, 1])})
    block = dgl.to_block(graph, {"item": torch.arange(2)})
    conv, wide = build(5, 8), from_edge_index(EDGES[:, :1], (2, 3))
    for edges in (graph, block):
        refuses("from 'user' to 'item' nodes; .*HeteroAdaptiveConv", conv, edges, X[:3])
        refuses("from 'user' to 'item' nodes; pass a pair of features",
                conv.recurrence.step.attention, edges, normal(3, 8))  # fmt: skip
    layers: Any = [RegisterMessages(), ConvAsAttention(dgl.nn.GINConv(), 3), MessageAggregation(3)]
    for layer in layers:
        refuses("from 'user' to 'item' nodes", layer, graph, normal(6, 3))
    for layer in layers:
        refuses(
            "3 destination and 2 source nodes, but in a step", layer.double(), wide, normal(2, 3)
        )
    refuses("got a tuple of features: use HeteroAdaptiveConv", conv, (X, X[:3]), EDGES[:, :1])
    refuses("got a dict of features: use HeteroAdaptiveConv", conv, {"a": X}, EDGES)
    refuses(r"\(2, E\), got shape \(7, 2\); did you mean edge_index.T", conv, X, EDGES.T)
    refuses("with a block of DGL, pass the features of its sources", conv, block, (X, X))


def test_adaptive_conv_takes_lazy_sizes_rules_and_batches() -> None:
    lazy = AdaptiveConv(-1, 8, rule=FixedDepth()).double()
    assert lazy(X, EDGES).shape == (6, 8)
    assert lazy.ponder.steps.tolist() == [10] * 6
    assert repr(build(5, 8)) == "AdaptiveConv(5, 8, heads=2, max_steps=4)"
    refuses("EventDriven.* with batch norm.* norm='layer'", AdaptiveConv, 5, 8, rule=EventDriven())
    waking = AdaptiveConv(5, 8, rule=EventDriven(), norm="layer").double()
    waking(X, EDGES)
    assert waking.ponder.quiescent is not None
    first = waking.input_map.weight.clone()
    waking.reset_parameters()
    assert not torch.equal(first, waking.input_map.weight)
    rule: Any = "act"
    refuses("a rule is a HaltingRule such as ACT", build, 5, 8, rule=rule)


@pytest.mark.parametrize("library", ["pyg", "dgl"])
def test_adaptive_conv_takes_a_convolution_as_its_step(library: str) -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    inner = pyg.SAGEConv(8, 8) if library == "pyg" else dgl.nn.SAGEConv(8, 8, "mean")
    conv = AdaptiveConv(5, 8, conv=inner, rule=FixedDepth(), max_steps=3).double().eval()
    graph, states = dgl.graph((*EDGES,), num_nodes=6), conv.input_map(X).relu()
    norm: Any = conv.recurrence.steps[0].attention_norm
    for t in range(3):
        states = inner(states, EDGES) if library == "pyg" else inner(graph, states)
        states = (states * norm.weight[t] / (1 + norm.eps) ** 0.5 + norm.bias[t]).relu()
    assert_same([conv(X, EDGES), conv(graph, X)], [states, states])
    assert repr(conv) == "AdaptiveConv(5, 8, conv=SAGEConv, max_steps=3)"
    refuses("edge_dim=3 is for attention of graphut: give heads", AdaptiveConv, 5, 8, edge_dim=3)
    refuses("give heads or conv", AdaptiveConv, 5, 8, heads=2, conv=inner)
    refuses("no features of edges, .*heads=1, edge_dim=3", conv, X, EDGES, EDGE_ATTR)
    gat = pyg.GATConv(8, 8, edge_dim=2, add_self_loops=False)
    refuses("GATConv with edge_dim=2 reads .* without conv", AdaptiveConv, 5, 8, conv=gat)
    refuses("conv must be a convolution", AdaptiveConv, 5, 8, conv=nn.Linear)
    refuses("norm must be 'batch', 'layer' or None", AdaptiveConv, 5, 8, norm="group")


def test_adaptive_conv_reads_edge_weights() -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    inner, weight = pyg.GCNConv(8, 8), normal(7, seed=3).abs()
    options: Any = {"norm": None, "rule": FixedDepth(), "max_steps": 3}
    conv = AdaptiveConv(5, 8, conv=inner, **options).double()
    states = conv.input_map(X).relu()
    for _ in range(3):
        states = inner(states, EDGES, weight).relu()
    inputs = [weight, *conv.parameters()]
    found = conv(X, EDGES, edge_weight=weight)
    assert_same([found, *gradients(found, inputs)], [states, *gradients(states, inputs)])
    attends, ones = AdaptiveConv(5, 8, heads=2, **options).double(), torch.ones_like(weight)
    assert_same([attends(X, EDGES, edge_weight=ones)], [attends(X, EDGES)])
    assert not torch.allclose(attends(X, EDGES, edge_weight=weight), attends(X, EDGES))
    refuses("weights of edges are given as edge_weight", conv, X, EDGES, weight)
    refuses(r"must be \(7,\), one per edge", conv, X, EDGES, edge_weight=weight[:2])
    mean = AdaptiveConv(5, 8).double()
    refuses("heads=4 or conv=GCNConv.* not support edge_weight", mean, X, EDGES, edge_weight=weight)


def test_the_mean_over_neighbours_is_pygs_sage() -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    mean, sage, frontier = (
        NeighborMean(5).double(),
        pyg.SAGEConv(5, 5).double(),
        torch.tensor([2, 5]),
    )
    sage.lin_l.weight, sage.lin_l.bias = mean.neighbors.weight, mean.own.bias
    sage.lin_r.weight = mean.own.weight
    layout, wanted = from_edge_index(EDGES, 6), sage(X, EDGES)
    inputs, found = [X, *mean.parameters()], mean(layout, X)
    assert_same([found, mean(layout, X, frontier=frontier)], [wanted, wanted[frontier]])
    assert_same(gradients([found], inputs), gradients([wanted], inputs))
    refuses("does not support edge_feat", mean, layout, X, edge_feat=X)
    mean.reset_parameters()
    assert not torch.equal(mean(layout, X), found)
    assert repr(AdaptiveConv(5, 8)) == "AdaptiveConv(5, 8, max_steps=10)"


def test_adaptive_conv_drops_and_keeps_the_sorted_edges() -> None:
    conv = build(5, 8, dropout=0.5, input_dropout=0.5).eval()
    edges = EDGES.clone()
    first, again = conv(X, edges), conv(X, edges)
    assert torch.equal(first, again)
    edges[1, 0] = 4  # in place: the edges are sorted again
    assert_same([conv(X, edges)], [conv(X, edges.clone())])
    assert not torch.equal(conv(X, edges), first)
    conv.train()
    assert not torch.equal(conv(X, edges), conv(X, edges))


def spread(x: Tensor) -> float:
    """Return the share of the energy of the rows that differs between them."""
    x = x.detach()
    return float((x - x.mean(0)).square().sum() / x.square().sum())


KINDS = ["mean", "attention", "conv", "layer", "hetero", "propagation", "recurrence"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_default_makes_nodes_alike_in_the_first_step(kind: str) -> None:
    """On random graphs and features at least half of the difference between nodes stays."""
    pyg = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    edges, x = torch.randint(500, (2, 2000)), torch.randn(500, 32)
    one: Any = {"max_steps": 1, "rule": FixedDepth()}
    if kind == "hetero":
        ends = ("a", "to", "a")
        hetero = HeteroAdaptiveConv(32, 32, (["a"], [ends]), **one)
        before, after = hetero.input_maps[0](x).relu(), hetero({"a": x}, {ends: edges})["a"]
    elif kind == "propagation":
        before, after = x, AdaptivePropagation(1)(x, edges)
    elif kind == "recurrence":  # as the documentation advises for nodes without positions
        attention = MultiHeadAttention(32, 4, allow_zero_in_degree=True)
        step = UniversalTransformerStep(attention, PositionwiseTransition(32, 64))
        recurrence = AdaptiveRecurrence(step, max_steps=1, step_signal=None)
        before, after = 0.1 * x.relu(), recurrence(from_edge_index(edges, 500), 0.1 * x.relu())[0]
    else:
        options: Any = {"conv": {"conv": pyg.GCNConv(32, 32)}, "layer": {"norm": "layer"}}
        options["attention"] = {"heads": 4}
        conv = AdaptiveConv(32, 32, **one, **options.get(kind, {}))
        before, after = conv.input_map(x).relu(), conv(x, edges)
    assert spread(after) > spread(before) / 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": 4, "out_channels": 10}, "10 features do not divide into 4 heads"),
        ({"heads": 0}, "^heads must be at least 1, got 0"),
        (
            {"concat": True},
            "^unknown argument 'concat'; the arguments are .*'heads', 'max_steps', .*'norm'",
        ),
        ({"dropout": 2}, r"dropout must lie in \[0, 1\), got 2"),
        ({"in_channels": 0}, "in_channels must be at least 1, or -1 .*, got 0"),
        ({"out_channels": 0}, "out_channels must be at least 1, got 0"),
        ({"in_channels": "4"}, "in_channels must be at least 1, .*, got '4'"),
        ({"max_steps": 0}, "^max_steps must be at least 1, got 0"),
        ({"max_steps": 2.5}, "^max_steps must be an integer, got 2.5"),
    ],
    ids=str,
)
def test_convolutions_refuse_options_by_the_names_of_their_arguments(
    options: dict[str, Any], words: str
) -> None:
    given = {"in_channels": 4, "out_channels": 8} | options
    refuses(words, AdaptiveConv, **given)
    refuses(words, HeteroAdaptiveConv, metadata=(["a"], [("a", "to", "a")]), **given)


def test_adaptive_conv_refuses_what_does_not_fit() -> None:
    def check(words: str, *arguments: Any, **options: Any) -> None:
        refuses(words, build(5, 8, edge_dim=3), *arguments, **options)

    check("x must be a tensor, got list", [X, X], EDGES)
    check("x must be a tensor, got SimpleNamespace", SimpleNamespace(x=X), EDGES)
    check(r"x must be \(N, F\), .* got shape \(1, 6, 5\)", X[None], EDGES)
    check("edge_index is a sparse matrix: pass", X, torch.eye(6).to_sparse())
    infinite = X.detach().clone()
    infinite[4, 2] = torch.inf
    check(r"x\[4, 2\] is inf: it must be finite", infinite, EDGES)
    check(r"edge_attr\[0, 0\] is nan", X, EDGES, EDGE_ATTR * torch.nan)
    check("got DGLGraph; pass the graph first, then the features", X, dgl.rand_graph(6, 9))
    check(r"source nodes are torch.float32, but .*torch.float64", X.float(), EDGES)
    check(r"must be \(6, 5\), one row .* got shape \(6, 2\)", X[:, :2], EDGES)
    check(r"edge_attr must be .* = \(7, 3\), got shape \(4, 3\)", X, EDGES, EDGE_ATTR[:4])
    check(r"edge_attr must be .* got shape \(7,\)", X, EDGES, EDGE_ATTR[:, 0])
    reads_none = build(5, 8)
    refuses(r"reads no features of edges", reads_none, X, EDGES, EDGE_ATTR)


def test_halted_nodes_go_on_in_training_and_in_evaluation() -> None:
    x, ring = normal(40, 3, dtype=torch.float32), torch.arange(40)
    edges = torch.stack([ring, ring.roll(1)])
    torch.manual_seed(0)
    conv = AdaptiveConv(3, 8, norm=None, halting_bias=-1.0)
    trained, evaluated = conv(x, edges), conv.eval()(x, edges)
    assert_same([trained], [evaluated], 1e-6)
    assert len(conv.ponder.steps.unique()) > 1
    conv.recurrence.evaluation_halted = "frozen"
    assert float((conv(x, edges) - trained).detach().abs().max()) > 1e-4


def test_adaptive_conv_keeps_and_resets_its_activation() -> None:
    assert str(AdaptiveConv(3, 8, activation=nn.Sequential())).startswith("AdaptiveConv(3, 8")
    conv = AdaptiveConv(3, 8, activation=nn.PReLU())
    slope = next(part for part in conv.modules() if isinstance(part, nn.PReLU)).weight
    slope.data.fill_(7.0)
    conv.reset_parameters()
    assert slope.item() == 0.25
    empty = AdaptiveConv(3, 8, activation=nn.Sequential()).recurrence.steps[0].activation
    assert not any(isinstance(part, nn.ReLU) for part in empty.modules())


def test_adaptive_conv_copies_pickles_and_loads() -> None:
    conv = build(5, 8)
    out = conv(X, EDGES)
    other = build(5, 8)
    other.reset_parameters()
    other.load_state_dict(conv.state_dict())
    for copy in (deepcopy(conv), pickle.loads(pickle.dumps(conv)), other):
        assert not hasattr(copy, "ponder")
        assert_same([copy(X, EDGES)], [out])


# A warning of torch itself, where a program breaks at a tensor that is no leaf.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_adaptive_conv_compiles() -> None:
    conv = build(5, 8, max_steps=2).eval()
    model = nn.Sequential(nn.Linear(5, 5), conv.double()).double()

    def run(x: Tensor) -> Tensor:
        return conv(model[0](x).relu(), EDGES).tanh()

    inputs = [X, *model.parameters()]
    found, expected = torch.compile(run, backend="eager")(X), run(X)
    assert_same([found, *gradients([found], inputs)], [expected, *gradients([expected], inputs)])


def test_adaptive_conv_in_pygs_sequential() -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    model = pyg.Sequential("x, edge_index", [(build(5, 8), "x, edge_index -> x"), nn.Linear(8, 2)])
    assert model.double()(X, EDGES).shape == (6, 2)
