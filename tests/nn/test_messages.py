from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.ragged import row_maxima
from graphut.nn import (
    MessageAggregation,
    MultiHeadAttention,
)
from graphut.nn.aggregation import neighbor_sum
from graphut.nn.messages import neighbor_max
from tests.helpers import (
    Pairs,
    assert_same,
    gradients,
    layout_of,
    multigraphs,
    normal,
    pairs_of,
    refuses,
)

FEATS = 6
AGGREGATORS: Any = [["max"], ["sum"], ["max", "sum"]]
PAIRS = [(0, 1), (1, 1), (2, 1), (2, 1), (0, 3), (3, 3), (1, 0), (2, 2)]
LAYOUT = layout_of(PAIRS, 5, 5)  # node 4 has no in-edge, and an edge comes twice


def aggregation(
    aggregators: Any = ("max", "sum"), attends: bool = False, edge_dim: int | None = None
) -> MessageAggregation:
    torch.manual_seed(0)
    attention = None
    if attends:
        attention = MultiHeadAttention(FEATS, 2, allow_zero_in_degree=True, edge_dim=edge_dim)
    return MessageAggregation(FEATS, aggregators, attention=attention).double()


def naive(layer: MessageAggregation, layout: EdgeLayout, feat: Tensor) -> Tensor:
    """Compute `MessageAggregation` for one node and one feature at a time."""
    pairs, sent = pairs_of(layout), layer.message(feat).relu()
    rows = []
    for node in range(layout.num_dst):
        seen = [sent[source] for source, target in pairs if target == node]
        entries = []
        for index, name in enumerate(layer.aggregators):
            for k in range(index * FEATS, (index + 1) * FEATS):
                total = torch.stack([message[k] for message in seen] or [feat.new_zeros(())])
                entries.append(total.max() if name == "max" else (1 + total.sum()).log())
        rows.append(layer.output(torch.stack(entries)))
    out = torch.stack(rows)
    return out if layer.attention is None else out + layer.attention(layout, feat)


@given(multigraphs())
def test_maximum_splits_gradients_over_ties(graph: tuple[Pairs, int, int]) -> None:
    pairs, num_src, num_dst = graph
    layout = layout_of(pairs, num_src, num_dst)
    given = normal(num_src, 3).detach().round().requires_grad_()  # equal maxima are common
    for rows in (None, torch.arange(0, num_dst, 2)):
        row, source, _ = layout.in_edges(rows)
        size = num_dst if rows is None else len(rows)
        wanted = row_maxima(given.relu()[source], row, size).clamp_min(0.0)
        found = neighbor_max(layout, given.relu(), rows)
        assert_same([found, *gradients([found], [given])], [wanted, *gradients([wanted], [given])])


@pytest.mark.parametrize("attends", [False, True])
@pytest.mark.parametrize("aggregators", AGGREGATORS)
def test_aggregation_equals_its_definition(aggregators: Any, attends: bool) -> None:
    layer, feat = aggregation(aggregators, attends), normal(5, FEATS)
    inputs = [feat, *layer.parameters()]
    wanted, out = naive(layer, LAYOUT, feat), layer(LAYOUT, feat)
    assert_same([out, *gradients([out], inputs)], [wanted, *gradients([wanted], inputs)])
    frontier = torch.tensor([1, 4])
    assert_same([layer(LAYOUT, feat, frontier=frontier)], [wanted[frontier]])


def test_messages_have_flops() -> None:
    layer, alone = aggregation(attends=True), aggregation(["sum"])
    attention = layer.attention
    assert attention is not None
    assert layer.node_flops == attention.node_flops + 2 * 2 * FEATS * FEATS
    assert layer.key_value_flops == attention.key_value_flops + 2 * 2 * FEATS * FEATS
    assert (layer.edge_flops, alone.edge_flops) == (attention.edge_flops + 2 * FEATS, FEATS)


def test_messages_in_narrow_precision() -> None:
    layer, feat = aggregation(attends=True).float(), normal(5, FEATS).float()
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(LAYOUT, feat)
    assert_same([out.float()], [layer(LAYOUT, feat)], 3e-2)
    many = torch.ones(5000, 1, dtype=torch.bfloat16)
    layout = layout_of([(source, 0) for source in range(5000)], 5000, 1)
    assert float(neighbor_sum(layout, many)) == 5000


def test_messages_name_a_value_that_is_not_finite() -> None:
    feat = normal(5, FEATS).detach()
    feat[4, 1] = torch.nan
    refuses(r"messages\[4, 0\] is nan: it must be finite", aggregation(["max"]), LAYOUT, feat)
    large = torch.full((5, FEATS), 3e38)
    layer = aggregation(["sum"]).float()
    layer.message.weight.data.copy_(torch.eye(FEATS))
    refuses(r"message_sum\[1, 0\] is inf: it must be finite", layer, LAYOUT, large)


def test_messages_pass_features_and_biases_of_edges_to_attention() -> None:
    layer, feat, messages = aggregation(attends=True, edge_dim=3), normal(5, FEATS), []
    assert layer.attention is not None
    for seed in (1, 2):
        edges: Any = {"edge_bias": normal(8, seed=seed), "edge_feat": normal(8, 3, seed=seed)}
        out, weights = layer(LAYOUT, feat, get_attention=True, **edges)
        attended, wanted = layer.attention(LAYOUT, feat, get_attention=True, **edges)
        assert_same([weights], [wanted])
        messages.append(out - attended)
    assert_same([messages[0]], [messages[1]])  # they do not read the edges


# Refused arguments.


def call(layer: MessageAggregation, **edges: Tensor | None) -> Tensor:
    return layer(LAYOUT, normal(5, FEATS), **edges)


def make(**options: Any) -> MessageAggregation:
    return MessageAggregation(FEATS, **options)


def test_messages_refuse_what_does_not_fit() -> None:
    refuses(r"must be one or both of \('max', 'sum'\), got", make, aggregators=["mean"])
    refuses(r"aggregators must be .*, got \(\)", make, aggregators=[])
    refuses("aggregators must be", make, aggregators=["max", "max"])
    refuses("must have 6 features in and out, but", make, attention=MultiHeadAttention(8, 2))
    for layer in (aggregation(), aggregation(attends=True)):
        refuses("no edge_weight: ", call, layer, edge_weight=torch.ones(8).double())
    refuses("not support edge_feat", call, aggregation(), edge_feat=normal(8, 2))
    refuses("not support edge_bias", call, aggregation(), edge_bias=torch.zeros(8))
