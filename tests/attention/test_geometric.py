from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.attention import EdgeLayout, geometric
from graphut.attention.geometric import geometric_bias, plain_geometric_bias
from graphut.attention.layout import layout_from_edges
from graphut.attention.library import compiled
from graphut.topology import Causal, Complete, Window
from tests.helpers import assert_same, gradients, normal, pairs_of
from tests.nn.cases import rows_graph

HEADS, FEATS = 2, 3
LAYOUTS: dict[str, EdgeLayout] = {
    "complete": Complete().layout([4, 1, 5]),
    "causal": Causal().layout([4, 1, 5]),
    "window": Window(2).layout([7, 2]),
    "rows": rows_graph([4, 1, 5]),  # parallel edges
    "across": layout_from_edges(
        torch.tensor([9, 0, 5, 3, 2, 7, 8]),
        torch.tensor([0, 1, 2, 6, 6, 8, 9]),
        num_src=10,
        num_dst=10,
        src_lengths=torch.tensor([4, 6]),
        dst_lengths=torch.tensor([5, 5]),
    ),
}


def naive_weights(layout: EdgeLayout, query: Tensor, key: Tensor, toward: Tensor) -> Tensor:
    """`a_ij` of arXiv 2110.07732, Eqs. 5 to 7, before it is normalised, by edge id."""
    pairs = pairs_of(layout)
    weights = [query.new_zeros(HEADS)] * len(pairs)
    for i in range(layout.num_dst):
        edges = [e for e, (j, dst) in enumerate(pairs) if dst == i and j != i]
        # Of two parallel edges the first one counts as nearer.
        edges.sort(key=lambda e, i=i: (abs(pairs[e][0] - i), pairs[e][0] < i, e))
        missed = query.new_ones(HEADS)
        for e in edges:
            j = pairs[e][0]
            hit = ((query[i] * key[j]).sum(-1) + toward[i, :, int(j > i)]).sigmoid()
            weights[e], missed = missed * hit, missed * (1 - hit)
    return torch.stack(weights)


Biases = Callable[..., Tensor]
BIASES = [plain_geometric_bias, geometric_bias]


def make_inputs(size: int, feats: int = FEATS) -> list[Tensor]:
    return [normal(size, HEADS, n, seed=seed) for seed, n in enumerate((feats, feats, 2))]


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize(("edges", "feats"), [(8, FEATS), (1 << 20, FEATS), (1 << 20, 19)])
def test_geometric_bias_is_the_logarithm_of_the_weights(
    name: str, bias: Biases, edges: int, feats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(geometric, "_EDGES", edges)  # computed at a time
    layout = LAYOUTS[name]
    inputs = make_inputs(layout.num_dst, feats)
    found = bias(layout, *inputs, None).exp()
    expected = naive_weights(layout, *inputs)
    assert_same([found], [expected])
    assert_same(gradients([found], inputs), gradients([expected], inputs))
    itself = [j == i for j, i in pairs_of(layout)]
    assert bool((found[itself] == 0).all()) and bool((found[[not x for x in itself]] > 0).all())


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("bias", BIASES)
def test_geometric_bias_of_a_frontier_is_that_of_its_edges(name: str, bias: Biases) -> None:
    layout, frontier = LAYOUTS[name], torch.tensor([1, 0, 2, 0, 6, 0, 8, 0])[::2]  # with gaps
    query, key, toward = inputs = make_inputs(layout.num_dst)
    edge = layout.in_edges(frontier)[2]
    whole = bias(layout, *inputs, None)[edge].exp()
    part = bias(layout, query[frontier], key, toward[frontier], frontier)
    assert_same([part[edge].exp()], [whole])
    assert_same(gradients([part[edge].exp()], inputs), gradients([whole], inputs))
    others = torch.ones(layout.num_edges, dtype=torch.bool).index_fill(0, edge, False)
    assert bool((part[others] == 0).all())


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("frontier", [torch.empty(0, dtype=torch.int64), torch.tensor([4])])
def test_geometric_bias_of_no_edges(bias: Biases, frontier: Tensor) -> None:
    layout = Complete().layout([4, 1])
    query, key, toward = inputs = make_inputs(5)
    found = bias(layout, query[frontier], key, toward[frontier], frontier)
    assert found.shape == (17, HEADS)
    assert [bool((g == 0).all()) for g in gradients([found.exp()], inputs)] == [True] * 3


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("bias", BIASES)
def test_geometric_bias_has_second_derivatives(name: str, bias: Biases) -> None:
    layout, seen = LAYOUTS[name], [True, False, True]
    inputs = [x.requires_grad_(y) for x, y in zip(make_inputs(layout.num_dst), seen, strict=True)]
    assert torch.autograd.gradgradcheck(lambda *given: bias(layout, *given, None).exp(), inputs)


@pytest.mark.parametrize("bias", BIASES)
def test_geometric_bias_does_not_lose_digits_in_long_batches(bias: Biases) -> None:
    layout = Complete().layout([40] * 40)
    query, key = (normal(1600, HEADS, FEATS, seed=n) for n in (0, 1))
    zeros = torch.zeros(1600, HEADS, 2)
    exact = plain_geometric_bias(layout, query, key, zeros.double(), None)[-1600:].exp()
    found = bias(layout, query.float(), key.float(), zeros, None)[-1600:].exp()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("bias", BIASES)
def test_geometric_bias_of_large_scores_is_exact(bias: Biases) -> None:
    layout, one = Complete().layout([3]), torch.ones(3, 1, 1)
    for score in (-200.0, 200.0):
        found = bias(layout, one * score, one, torch.zeros(3, 1, 2), None)[:3, 0]
        near, far = (0.0, -200.0) if score > 0 else (-200.0, -200.0)
        assert found.tolist() == [-torch.inf, near, far]


@pytest.mark.skipif(compiled() is None, reason="the compiled kernels are not built")
def test_geometric_bias_is_the_plain_one_where_the_kernels_cannot_be_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layout, inputs, calls = Complete().layout([3]), make_inputs(3), []

    def plain(*given: Any) -> Tensor:
        calls.append(given)
        return plain_geometric_bias(*given)

    monkeypatch.setattr(geometric, "plain_geometric_bias", plain)
    expected = geometric_bias(layout, *inputs, None).exp()
    assert not calls
    torch.vmap(lambda query: geometric_bias(layout, query, *inputs[1:], None))(inputs[0][None])
    monkeypatch.setattr(geometric, "compiled", lambda: None)
    assert_same([geometric_bias(layout, *inputs, None).exp()], [expected])
    assert len(calls) == 2


def test_geometric_bias_of_views_with_the_sign_turned() -> None:
    given = [torch._neg_view(-x) for x in make_inputs(5)]
    assert all(x.is_neg() for x in given)
    layout = Causal().layout([5])
    found, expected = (
        bias(layout, *given, None).exp() for bias in (geometric_bias, plain_geometric_bias)
    )
    assert_same([found], [expected])
