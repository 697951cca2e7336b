from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.nn import (
    MultiHeadAttention,
    edge_distances,
)
from graphut.topology import Causal, Complete, Window, parse
from tests.attention.naive import naive_attention
from tests.helpers import assert_same, gradients, layout_of, normal, pairs_of, refuses
from tests.nn.cases import (
    FEATS,
    randomised,
    rows_graph,
    signal,
)

SPARSE = layout_of([(7, 7), (7, 0), *((i, i + 1) for i in range(11))], 12, 12)
PLACES: dict[str, tuple[EdgeLayout, Tensor]] = {
    "causal": (Causal().layout([5, 3]), torch.arange(8) % 5),
    "complete": (Complete().layout([4]), torch.tensor([3, 1, 4, 1])),
    "parallel": (rows_graph([5, 1, 4]), torch.arange(10).flip(0)),
    "fractions": (Window(1).layout([6]), torch.linspace(-3, 2, 6) ** 2),
    "far": (Complete().layout([3]), torch.tensor([-(10**6), 0, 10**6])),
    "sparse": (SPARSE, torch.arange(12) ** 2),
    "random": (parse("random:3@1").layout([9]), torch.arange(9)),
}


def naive_relative(layer: MultiHeadAttention, layout: EdgeLayout, feat: Tensor, at: Tensor) -> Any:
    """Return attention with relative positions, edge by edge, and its weights by edge id."""
    assert layer.relative is not None
    pairs, by_head = pairs_of(layout), (-1, layer.num_heads, layer.head_feats)
    query = layer.query(feat).view(by_head)
    key, value = (part.view(by_head) for part in layer.key_value(feat).chunk(2, 1))
    u, v = layer.relative.bias
    away = torch.stack([signal(float(at[i] - at[j]), feat.shape[1]) for j, i in pairs])
    there = layer.relative.distance(away).view(by_head)
    rows = torch.tensor([i for _, i in pairs])
    factor = torch.ones(layout.num_dst, layer.num_heads, 1).double()
    if layer.degree_scale is not None:
        factor = torch.outer(layout.in_degrees.double().log1p(), layer.degree_scale)[:, :, None]
    bias = (factor[rows] * (query[rows] + v) * there).sum(2) / layer.head_feats**0.5
    out, weights = naive_attention(pairs, factor * (query + u), key, value, bias=bias)
    return layer.output(out.flatten(1)), weights


@pytest.mark.parametrize("backend", ["auto", "dense", "dgl", "torch"])
@pytest.mark.parametrize("name", PLACES)
def test_relative_attention_is_its_definition(name: str, backend: str) -> None:
    layout, at = PLACES[name]
    options: Any = {"relative": True, "scale_by_degree": name in ("causal", "sparse", "random")}
    layer = randomised(MultiHeadAttention(FEATS, 2, backend=backend, **options))
    layer.allow_zero_in_degree = True
    feat, distances = normal(layout.num_src, FEATS), edge_distances(layout, at)
    inputs, some = [feat, *layer.parameters()], torch.arange(0, layout.num_dst, 2)

    def naive() -> Any:
        return naive_relative(layer, layout, feat, at)

    found = layer(layout, feat, edge_distance=distances, get_attention=True)
    assert_same(found, naive())
    assert_same(gradients(found, inputs), gradients(naive(), inputs))
    assert_same([layer(layout, feat, edge_distance=distances)], naive()[:1])
    part, expected = layer(layout, feat, frontier=some, edge_distance=distances), naive()[0][some]
    assert_same([part], [expected])
    assert_same(gradients([part], inputs), gradients([expected], inputs))


def test_relative_attention_adds_a_bias_of_edges_to_the_term_of_distances() -> None:
    layout, at = PLACES["parallel"]
    layer, feat = randomised(MultiHeadAttention(FEATS, 2, relative=True)), normal(10, FEATS)
    distances, bias = edge_distances(layout, at), normal(layout.num_edges)
    _, weights = layer(layout, feat, edge_distance=distances, get_attention=True)
    expected = weights * bias.exp()[:, None]
    row = torch.empty_like(layout.destinations())
    row[layout.in_edges()[2]] = layout.destinations()
    total = torch.zeros(10, 2).double().index_add(0, row, expected)[row]
    found = layer(layout, feat, edge_distance=distances, edge_bias=bias, get_attention=True)[1]
    assert_same([found], [expected / total])


@pytest.mark.parametrize("name", PLACES)
def test_edge_distances_by_edge_id(name: str) -> None:
    layout, at = PLACES[name]
    expected = [at[i] - at[j] for j, i in pairs_of(layout)]
    assert torch.equal(edge_distances(layout, at), torch.stack(expected))


def test_relative_positions_map_a_distance_of_a_sentence_once() -> None:
    layout, layer = Causal().layout([5, 4]), MultiHeadAttention(FEATS, 2, relative=True)
    seen = list[int]()
    assert layer.relative is not None
    layer.relative.distance.register_forward_hook(lambda m, args, out: seen.append(len(args[0])))
    layer(layout, torch.ones(9, FEATS), edge_distance=edge_distances(layout, torch.arange(9)))
    assert seen == [5]


LAYOUT, FEAT = Complete().layout([3]), torch.zeros(3, FEATS)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: edge_distances(LAYOUT, torch.zeros(3, 2)), r"must be \(3,\), .* \(3, 2\)"),
        (lambda: edge_distances(LAYOUT, torch.zeros(2)), r"must be \(3,\), .* got shape \(2,\)"),
        (
            lambda: MultiHeadAttention(FEATS, 2)(LAYOUT, FEAT, edge_distance=torch.arange(3)),
            "edge_distance is for a layer with relative=True",
        ),
    ],
)
def test_relative_refuses(call: Callable[[], Any], words: str) -> None:
    refuses(words, call)
