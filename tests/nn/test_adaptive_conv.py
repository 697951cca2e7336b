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
    LayerAsConv,
    MultiHeadAttention,
    NeighborMean,
    PositionwiseTransition,
    RegisterMessages,
    UniversalTransformerStep,
    edge_distances,
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
    expected, ponder = conv.recurrence(layout, conv.source_map(X).relu())
    assert_same([found], [expected])
    assert torch.equal(conv.ponder.steps, ponder.steps)
    assert len(ponder.steps.unique()) > 1 or ponder.cost > 1
    inputs = [X, *conv.parameters()]
    assert_same(*(gradients([out, p.cost], inputs) for out, p in
                  [(found, conv.ponder), (expected, ponder)]))  # fmt: skip
    plain = build(5, 8, add_self_loops=False)
    expected, _ = plain.recurrence(from_edge_index(EDGES, 6), plain.source_map(X).relu())
    assert_same([plain(X, EDGES)], [expected])  # node 5 reads nothing


def test_adaptive_conv_gives_self_loops_the_mean_of_edge_features() -> None:
    conv = build(5, 8, edge_dim=3)
    loop = EDGES[0] == EDGES[1]
    rows = [*EDGE_ATTR[~loop]]
    for node in range(6):
        into = EDGE_ATTR[~loop & (EDGES[1] == node)]
        rows.append(into.mean(0) if len(into) else torch.zeros(3).double())
    layout = from_edge_index(with_loops(EDGES, 6), 6)
    expected, _ = conv.recurrence(layout, conv.source_map(X).relu(), edge_feat=torch.stack(rows))
    assert_same([conv(X, EDGES, EDGE_ATTR)], [expected])
    assert_same([conv(dgl.graph((*EDGES,), num_nodes=6), X, EDGE_ATTR)], [expected])


def test_adaptive_conv_takes_graphs_and_blocks_of_dgl() -> None:
    conv, graph = build(5, 8), dgl.graph((*EDGES,), num_nodes=6)
    assert_same([conv(graph, X)], [conv(X, EDGES)])
    block = dgl.to_block(graph, torch.arange(6))
    order = block.srcdata[dgl.NID]
    for feat in (X[order], (X[order], X[:6])):
        assert_same([conv(block, feat)], [conv(X, EDGES)])
    assert_same([conv(graph, (X, X))], [conv(X, EDGES)])


def users_and_items() -> Any:
    likes = ([5, 4, 0, 0, 2], [0, 0, 1, 2, 2])
    return dgl.heterograph(
        {("user", "follows", "user"): (*EDGES,), ("user", "likes", "item"): likes},
        {"user": 6, "item": 3},
    )


def test_adaptive_conv_in_hetero_graph_conv_of_dgl() -> None:
    graph, items = users_and_items(), normal(3, 4, seed=2)
    of_users, of_items = build(5, 8), build((5, 4), 8)
    of_users.eval(), of_items.eval()  # batch statistics would be those of the block
    layer = dgl.nn.HeteroGraphConv({"follows": of_users, "likes": of_items})
    likes = torch.stack(graph.edges(etype="likes"))
    expected = {"user": of_users(X, EDGES), "item": of_items((X, items), likes)}
    out = layer(graph, {"user": X, "item": items})
    assert_same([out[kind] for kind in expected], [*expected.values()])
    # A block with all in-edges of a user and of an item, and of their sources.
    seeds = {"user": torch.tensor([2]), "item": torch.tensor([0, 2])}
    block = dgl.to_block(dgl.in_subgraph(graph, seeds), seeds)
    first = {kind: block.srcdata[dgl.NID][kind] for kind in ("user", "item")}
    out = layer(block, {"user": X[first["user"]], "item": items[first["item"]]})
    assert_same([out["item"]], [expected["item"][[0, 2]]])
    # Other users are sources only: they keep their first states.
    sources = [2, *EDGES[0, EDGES[1] == 2].tolist()]  # the user comes first
    star = torch.tensor([[place, 0] for place in range(len(sources))]).T
    layout = from_edge_index(star, (len(sources), 1))
    states, _ = of_users.recurrence(layout, of_users.source_map(X[sources]).relu())
    assert_same([out["user"]], [states])


def test_adaptive_conv_refuses_features_that_a_graph_of_dgl_does_not_have() -> None:
    graph, conv = users_and_items(), build(5, 8)
    block = dgl.to_block(dgl.graph((*EDGES,), num_nodes=6), torch.tensor([1, 2]))
    likes = dgl.to_block(graph["likes"], {"item": torch.arange(3)})
    sources = X[block.srcdata[dgl.NID]]
    for edges in (graph["likes"], likes):
        count = edges.num_src_nodes()
        refuses("from 'user' to 'item' nodes; pass a pair of features", conv, edges, X[:count])
        refuses("from 'user' to 'item' nodes; pass a", conv.recurrence.step.attention, edges,
                normal(count, 8))  # fmt: skip
    for layer in (RegisterMessages(), ConvAsAttention(dgl.nn.GINConv(), 3), edge_distances):
        refuses("from 'user' to 'item' nodes", layer, graph["likes"], normal(6, 3))
    refuses("the destinations of a step must be the first", conv, block, (sources, sources[2:4]))
    refuses(r"x\[1\] has 1 rows for 2 destinations", conv, block, (sources, sources[:1]))
    refuses("the destinations of a step must be", conv, graph["follows"], (X, X.flip(0)))


def test_adaptive_conv_on_a_bipartite_graph_keeps_the_sources() -> None:
    conv, targets = build((5, 4), 8), normal(3, 4, seed=2)
    edges = torch.tensor([[0, 4, 5, 5], [0, 0, 1, 1]])
    union = torch.cat([edges + torch.tensor([[3], [0]]), torch.arange(3).expand(2, -1)], 1)
    assert conv.target_map is not None
    feat = torch.cat([conv.target_map(targets), conv.source_map(X)]).relu()
    expected, _ = conv.recurrence(from_edge_index(union, (9, 3)), feat)
    assert_same([conv((X, targets), edges)], [expected])
    graph = dgl.heterograph({("a", "to", "b"): (*edges,)}, {"a": 6, "b": 3})
    assert_same([conv(graph, (X, targets))], [expected])
    alike = build(5, 8)
    assert_same([alike((X, X), EDGES)], [alike(X, EDGES)])


def test_adaptive_conv_takes_lazy_sizes_rules_and_batches() -> None:
    lazy = AdaptiveConv(-1, 8, rule=FixedDepth()).double()
    assert lazy(X, EDGES, batch=torch.tensor([0, 0, 0, 0, 0, 1])).shape == (6, 8)
    assert lazy.ponder.steps.tolist() == [10] * 6
    assert repr(build(5, 8)) == "AdaptiveConv(5, 8, heads=2, max_steps=4)"
    refuses("EventDriven.* with batch norm.* norm='layer'", AdaptiveConv, 5, 8, rule=EventDriven())
    waking = AdaptiveConv(5, 8, rule=EventDriven(), norm="layer").double()
    waking(X, EDGES)
    assert waking.ponder.quiescent is not None
    first = waking.source_map.weight.clone()
    waking.reset_parameters()
    assert not torch.equal(first, waking.source_map.weight)
    rule: Any = "act"
    refuses("a rule is a HaltingRule such as ACT", build, 5, 8, rule=rule)


@pytest.mark.parametrize("library", ["pyg", "dgl"])
def test_adaptive_conv_takes_a_convolution_as_its_step(library: str) -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    inner = pyg.SAGEConv(8, 8) if library == "pyg" else dgl.nn.SAGEConv(8, 8, "mean")
    conv = AdaptiveConv(5, 8, conv=inner, rule=FixedDepth(), max_steps=3).double().eval()
    graph, states = dgl.graph((*EDGES,), num_nodes=6), conv.source_map(X).relu()
    norm: Any = conv.recurrence.steps[0].attention_norm
    for t in range(3):
        states = inner(states, EDGES) if library == "pyg" else inner(graph, states)
        states = (states * norm.weight[t] / (1 + norm.eps) ** 0.5 + norm.bias[t]).relu()
    assert_same([conv(X, EDGES), conv(graph, X)], [states, states])
    assert repr(conv) == "AdaptiveConv(5, 8, conv=SAGEConv, max_steps=3)"
    refuses("edge_dim=3 is for attention: give heads", AdaptiveConv, 5, 8, edge_dim=3)
    refuses("give heads or conv", AdaptiveConv, 5, 8, heads=2, conv=inner)
    refuses("conv must be a convolution", AdaptiveConv, 5, 8, conv=nn.Linear)
    refuses("norm must be 'batch', 'layer' or None", AdaptiveConv, 5, 8, norm="group")


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
        before, after = conv.source_map(x).relu(), conv(x, edges)
    assert spread(after) > spread(before) / 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"heads": 4, "out_channels": 10}, "out_channels=10 does not divide into heads=4"),
        ({"heads": 0}, "^heads must be at least 1, got 0"),
        (
            {"concat": True},
            "^unknown argument 'concat'; the other options are .*'norm', 'residual'",
        ),
        ({"droput": 0.2}, "^unknown argument 'droput'; did you mean 'dropout'"),
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


def test_the_record_of_a_layer_that_was_not_called() -> None:
    for layer in (build(5, 8), AdaptivePropagation(), LayerAsConv(nn.Identity()),
                  HeteroAdaptiveConv(4, 8, (["a"], [("a", "to", "a")]))):  # fmt: skip
        with pytest.raises(AttributeError, match="record of the last call, and there was none"):
            _ = layer.ponder.cost


def test_adaptive_conv_refuses_what_does_not_fit() -> None:
    def check(words: str, *arguments: Any, **options: Any) -> None:
        refuses(words, build(5, 8, edge_dim=3), *arguments, **options)

    wanted = r"call AdaptiveConv as conv\(x, edge_index, edge_attr=None, batch=None\), .*; got "
    graph = dgl.graph((*EDGES,), num_nodes=6)
    check(wanted + r"conv\(Tensor\)", X)
    data = SimpleNamespace(x=X, edge_index=EDGES)
    check(wanted + r"conv\(SimpleNamespace\): pass data.x, data.edge_index", data)
    check(wanted + r"conv\(list, Tensor\)", [X, X], EDGES)
    check(wanted + r"conv\(DGLGraph, Tensor, batch=...\)", graph, X, batch=EDGES[0])
    check(wanted + r"conv\(Tensor, Tensor, size=...\)", X, EDGES, size=(6, 6))
    check(wanted + r"conv\(Tensor, Tensor, x=...\)", X, EDGES, x=X)
    check(r"x must be \(N, F\), .* got shape \(1, 6, 5\)", X[None], EDGES)
    check("x is None; in to_hetero of PyG, use graphut.nn.pyg_layers.AdaptiveConv", None, EDGES)
    check(r"edge_index is None; in to_hetero of PyG", X, None)
    check(r"x must be a tensor or a pair .*, got 3", (X, X, X), EDGES)
    check("edge_index is a sparse matrix: pass", X, torch.eye(6).to_sparse())
    infinite = X.detach().clone()
    infinite[4, 2] = torch.inf
    check(r"x\[4, 2\] is inf: it must be finite", infinite, EDGES)
    check(r"edge_attr\[0, 0\] is nan", X, EDGES, EDGE_ATTR * torch.nan)
    check("got DGLGraph; pass the graph first, then the features", X, dgl.rand_graph(6, 9))
    check(r"source nodes are torch.float32, but .*torch.float64", X.float(), EDGES)
    check(r"have shape \(6, 2\); pass one row of 5 features", X[:, :2], EDGES)
    check(r"6 destination nodes, .*pass one row of 5 features", (X, X[:, :2]), EDGES)
    check(r"edge_attr must be .* = \(7, 3\), got shape \(4, 3\)", X, EDGES, EDGE_ATTR[:4])
    check(r"edge_attr must be .* got shape \(7,\); .*edge_dim=3", X, EDGES, EDGE_ATTR[:, 0])
    reads_none = build(5, 8)
    refuses("reads no edge_attr, got shape .*edge_dim=3", reads_none, X, EDGES, EDGE_ATTR)


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


def test_adaptive_conv_in_pygs_sequential_and_to_hetero() -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    from torch_geometric.data import HeteroData

    from graphut.nn.pyg_layers import AdaptiveConv

    model = pyg.Sequential("x, edge_index", [(build(5, 8), "x, edge_index -> x"), nn.Linear(8, 2)])
    assert model.double()(X, EDGES).shape == (6, 2)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = AdaptiveConv((-1, -1), 8), AdaptiveConv((-1, -1), 8)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.second(self.first(x, edge_index).relu(), edge_index)  # type: ignore[no-any-return]

    data: Any = HeteroData()
    data["paper"].x, data["author"].x = torch.randn(6, 5), torch.randn(3, 4)
    data["paper", "cites", "paper"].edge_index = EDGES
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 5]])
    data["paper", "rev", "author"].edge_index = torch.tensor([[0, 1, 5], [0, 1, 2]])
    net = pyg.to_hetero(Net(), data.metadata())
    out = net(data.x_dict, data.edge_index_dict)
    assert {name: tuple(rows.shape) for name, rows in out.items()} == {
        "paper": (6, 8),
        "author": (3, 8),
    }
    sum(rows.sum() for rows in out.values()).backward()
