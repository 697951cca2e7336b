import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphut._dgl import DGLGraph, dgl
from graphut.attention import EdgeLayout, as_layout
from graphut.nn import AttentionRecord, MultiHeadAttention
from graphut.topology import Causal, Complete, Topology, Window
from tests.helpers import (
    Pairs,
    assert_same,
    covering,
    cross_edges,
    gradients,
    layout_of,
    name_of,
    normal,
    refuses,
)
from tests.nn import reference
from tests.nn.cases import HEADS, LENGTHS, MODES, build_case, randomised
from tests.nn.reference import dense_recurrence
from tests.topology.brute import Comb


def build(in_feats: int | tuple[int, int] = 8, **options: Any) -> MultiHeadAttention:
    return randomised(MultiHeadAttention(in_feats, 2, **options))


def in_torch(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """Return torch's own layer with the same weights."""
    src, dst = layer.in_feats
    other = nn.MultiheadAttention(dst, layer.num_heads, kdim=src, vdim=src).double()
    key, value = layer.key_value.weight.chunk(2)
    weights = {
        "in_proj_bias": torch.cat([layer.query.bias, layer.key_value.bias]),
        "out_proj.weight": layer.output.weight,
        "out_proj.bias": layer.output.bias,
    }
    if src == dst:
        weights["in_proj_weight"] = torch.cat([layer.query.weight, key, value])
    else:
        parts = {"q": layer.query.weight, "k": key, "v": value}
        weights |= {f"{name}_proj_weight": weight for name, weight in parts.items()}
    other.load_state_dict(weights)
    return other


@pytest.mark.parametrize("topology", [Complete(), Causal(), Window(1), Comb(2)], ids=str)
def test_attention_equals_torchs_layer_with_a_mask(topology: Topology) -> None:
    layer, feat = build(), normal(6, 8)
    expected, weights = in_torch(layer)(
        feat, feat, feat, attn_mask=~topology.mask(6), average_attn_weights=False
    )
    found, by_edge = layer(topology.graph([6]), feat, get_attention=True)
    row, source, edge = topology.layout([6]).in_edges()
    assert_same([found, by_edge[edge]], [expected, weights[:, row, source].T])
    assert_same(gradients([found], [feat]), gradients([expected], [feat]))
    assert_same([layer(topology.layout([6]), feat)], [expected])


def test_attention_on_a_bipartite_graph_takes_a_pair_of_features() -> None:
    layer, source, target = build((5, 8)), normal(3, 5), normal(4, 8, seed=1)
    expected, _ = in_torch(layer)(target, source, source)
    pairs = torch.ones(3, 4).nonzero(as_tuple=True)
    bipartite = dgl.heterograph({("source", "attends", "target"): pairs})
    for graph in (bipartite, cross_edges(Complete(), [4], [3])):
        assert_same([layer(graph, (source, target))], [expected])


ROWS = layout_of([(0, 0), (1, 1), (2, 0), (2, 2), (2, 2), (3, 3), (4, 4)], 5, 5)


def test_attention_degree_factor_is_initialized_to_1_at_20_in_edges() -> None:
    layer = MultiHeadAttention(8, 2, scale_by_degree=True)
    layer.degree_scale.data.zero_()
    layer.reset_parameters()
    assert layer.degree_scale.tolist() == pytest.approx([1 / math.log(21)] * 2)


def test_attention_symmetric_init_makes_scores_symmetric() -> None:
    layer, feat = MultiHeadAttention(8, 2, symmetric_init=True).double(), normal(5, 8)
    _, weights = layer(Complete().layout([5]), feat, get_attention=True)
    scores = weights.log().view(5, 5, 2)  # up to a constant for each destination
    scores = scores - scores.diagonal().T[:, None] + 1
    query = layer.query(feat).view(5, 2, 4)
    similarity = torch.einsum("ihd,jhd->ijh", query, query) / 2
    expected = similarity - similarity.diagonal().T[:, None] + 1
    assert_same([scores], [expected])
    layer(Complete().layout([5]), feat).square().sum().backward()
    key = layer.key_value.weight.grad.chunk(2)[0]  # type: ignore[union-attr]
    assert not torch.equal(key, layer.query.weight.grad)  # training makes them differ


def papers_and_authors() -> DGLGraph:
    edges = {
        ("author", "writes", "paper"): ([0, 1, 1, 2], [0, 0, 1, 3]),
        ("paper", "cites", "paper"): ([0, 3, 2], [1, 1, 0]),
        ("paper", "written-by", "author"): ([0, 0, 1, 3], [0, 1, 1, 2]),
    }
    return dgl.heterograph(edges, num_nodes_dict={"author": 3, "paper": 4})


def test_attention_in_hetero_graph_conv() -> None:
    graph, inputs = papers_and_authors(), {"author": normal(3, 6), "paper": normal(4, 8)}
    widths = {"writes": (6, 8), "cites": 8, "written-by": (8, 6)}
    layers = {name: build(width, allow_zero_in_degree=True) for name, width in widths.items()}
    bias = {"writes": {"edge_bias": normal(4, 2).detach()}}
    found = dgl.nn.HeteroGraphConv(layers, aggregate="sum")(graph, inputs, mod_kwargs=bias)
    by_type = {
        name: layers[name](
            as_layout(graph, name), (inputs[source], inputs[target]), **bias.get(name, {})
        )
        for source, name, target in graph.canonical_etypes
    }
    assert_same([found["paper"]], [by_type["writes"] + by_type["cites"]])
    assert_same([found["author"]], [by_type["written-by"]])


REMOVED = torch.tensor([0.0, -torch.inf, 0.0, 0.0]).double()  # bias of edges into 0, 1, 2, 2


@pytest.mark.parametrize(
    ("pairs", "options"),
    [
        ([(0, 0), (0, 1), (1, 2), (2, 2)], {}),
        ([(0, 0), (0, 1), (1, 2), (2, 2)], {"edge_bias": REMOVED}),
        ([(0, 0), (0, 2), (1, 2), (2, 2)], {}),
        ([(0, 0), (0, 1), (1, 2), (2, 2)], {"frontier": torch.tensor([0, 2])}),
    ],
    ids=["plain", "removed-by-bias", "without-in-edges", "frontier"],
)
@pytest.mark.parametrize("attn_drop", [0.0, 0.5])
def test_attention_adds_value_shift_to_every_value(
    attn_drop: float, pairs: Pairs, options: dict[str, Tensor]
) -> None:
    layer = build(attn_drop=attn_drop, allow_zero_in_degree=True)
    graph, feat, shift = layout_of(pairs, 3, 3), normal(3, 8), normal(8, seed=1)
    key_value = layer.project(feat)
    shifted = key_value + torch.cat([torch.zeros(8), shift])
    rows = feat[options["frontier"]] if "frontier" in options else feat
    torch.manual_seed(0)
    found = layer(graph, rows, stored=key_value, value_shift=shift, **options)
    torch.manual_seed(0)
    assert_same([found], [layer(graph, rows, stored=shifted, **options)])


@pytest.mark.parametrize("scale_by_degree", [False, True])
def test_attention_a_node_without_in_edges(scale_by_degree: bool) -> None:
    layer, feat = build(scale_by_degree=scale_by_degree), normal(3, 8)
    graph = layout_of([(0, 0), (1, 2)], 3, 3)
    refuses(r"no in-edge to attend to \(node 1\)", layer, graph, feat)
    layer.allow_zero_in_degree = True
    assert_same([layer(graph, feat)[1]], [layer.output.bias])


def test_attention_initializes_each_projection_separately() -> None:
    torch.manual_seed(0)
    layer = build(256)
    layer.reset_parameters()
    bound = (6 / 512) ** 0.5
    for weight in (layer.query.weight, *layer.key_value.weight.chunk(2), layer.output.weight):
        assert 0.99 * bound < weight.max() <= bound
    assert not any(linear.bias.any() for linear in layer.children())


def test_attention_calls_a_map_of_edge_features_that_is_not_plain() -> None:
    graph, feat, edge_feat = ROWS, normal(5, 8), normal(7, 3, seed=1)
    layer = build(edge_dim=3)
    expected = layer(graph, feat, edge_feat=2 * edge_feat)
    plain = layer.edge
    layer.edge = nn.Sequential(plain, nn.Linear(8, 8)).double()  # with a bias
    layer.edge[1].weight.data = 2 * torch.eye(8).double()
    layer.edge[1].bias.data.zero_()
    assert_same([layer(graph, feat, edge_feat=edge_feat)], [expected])
    layer.edge = plain
    plain.register_forward_hook(lambda module, args, out: 2 * out)
    assert_same([layer(graph, feat, edge_feat=edge_feat)], [expected])


# The weights of all steps.

MODES_OF_WEIGHTS = {
    name: MODES[name] for name in ("halted", "norm", "form", "topology", "scale_by_degree")
}


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Return a list that receives the weights of each attention of the dense reference."""
    found: list[Tensor] = []

    def attend(layer: Any, layout: EdgeLayout, rows: Tensor, shown: Tensor, **edges: Any) -> Tensor:
        table, plain = layer.project(shown), reference._plain(layer)
        out, weights = plain(layout, rows, stored=table, get_attention=True, **edges)
        found.append(weights.detach())
        return out

    monkeypatch.setattr(reference, "_attend", attend)
    return found


@pytest.mark.parametrize("modes", covering(**MODES_OF_WEIGHTS), ids=name_of)
def test_attention_record_is_that_of_the_dense_oracle(
    modes: dict[str, Any], oracle: list[Tensor]
) -> None:
    case = build_case(**modes)
    out, ponder, _ = case.layer(case.graph, case.feat, **case.arguments, get_attention=True)
    assert_same([out], [case.layer(case.graph, case.feat, **case.arguments)[0]])
    dense_recurrence(case.layer, case.graph, case.feat, **case.arguments)
    records = [ponder.attention, ponder.cross_attention][: 1 + (modes["form"] == "decoder")]
    for number, record in enumerate(records):
        assert record is not None and len(record.weights) == int(ponder.steps.max())
        row, source, edge = record.layout.in_edges()
        sizes = record.layout.dst_lengths.tolist(), record.layout.src_lengths.tolist()
        dense = [record.dense(sentence) for sentence in range(len(LENGTHS))]
        for step, weights in enumerate(record.weights):
            runs = (ponder.steps > step) | (modes["halted"] == "running")
            expected = oracle[number :: len(records)][step][edge] * runs[row, None]
            assert_same([weights[edge]], [expected])
            whole = torch.zeros(len(runs), record.layout.num_src, HEADS).double()
            whole.index_put_((row, source), expected, accumulate=True)
            parts = [part.split(sizes[1], 1) for part in whole.split(sizes[0])]
            own = [parts[k][k].permute(2, 0, 1) for k in range(len(LENGTHS))]
            assert_same([each[step] for each in dense], own)


# Refused arguments.

THREE, FEAT = Complete().layout([3]), torch.zeros(3, 8)
RECORD = AttentionRecord(Causal().layout([2, 1]), [torch.ones(4, HEADS)])
SHAPES = r"edge_feat must be \(7, F\) with an .* got shapes \(6, 3\) and \(2, 4, 3\)"


def with_edges(edge_dim: int | None, edge_feat: Tensor | None) -> Tensor:
    return build(edge_dim=edge_dim)(ROWS, normal(5, 8), edge_feat=edge_feat)


def test_attention_refuses_what_does_not_fit() -> None:
    refuses("8 features do not divide into 3 heads", MultiHeadAttention, 8, 3)
    refuses("num_heads must be at least 1, got 0", MultiHeadAttention, 8, 0)
    refuses("edge_dim must be at least 1, got 0", build, edge_dim=0)
    refuses(r"attn_drop must lie in \[0, 1\), got 1.5", build, attn_drop=1.5)
    refuses("unknown backend 'cuda'", build, backend="cuda")
    refuses(r"symmetric_init needs .*in_feats=\(3, 4\)", build, (3, 4), symmetric_init=True)
    refuses(
        "names destination 25; the graph has 3",
        build().float(),
        THREE,
        FEAT,
        frontier=torch.tensor([1, 25]),
    )
    refuses(r"frontier must be a tensor, got list", build().float(), THREE, FEAT, frontier=[1, 2])
    refuses("which need it; got edge_dim and no features", with_edges, 3, None)
    refuses(r"no edge_dim and features of shape \(7, 3\)", with_edges, None, torch.ones(7, 3))
    refuses(SHAPES, with_edges, 3, torch.ones(6, 3))
    refuses(r"edge_feat\[0, 0\] is nan", with_edges, 1, torch.full((7, 1), math.nan))
    refuses("edge_feat must be floating point, got t", with_edges, 1, torch.ones(7, 1).long())
    refuses("no graph -1 .* in a batch of 2", RECORD.dense, -1)
    films = dgl.heterograph({("user", "likes", "film"): ([0, 3, 2], [0, 1, 1])})
    refuses("'user' to 'film' nodes; pass a pair of features", build(), films, normal(4, 8))
