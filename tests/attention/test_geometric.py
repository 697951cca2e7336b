from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphut.attention import EdgeLayout, geometric
from graphut.attention.geometric import geometric_bias
from graphut.attention.layout import layout_from_edges
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


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize(("edges", "pairs"), [(8, 4), (1 << 20, 4), (1 << 20, 0)])
def test_geometric_bias_is_the_logarithm_of_the_weights(
    name: str, edges: int, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(geometric, "_EDGES", edges)  # computed at a time
    monkeypatch.setattr(geometric, "_PAIRS_AN_EDGE", pairs)  # 0: no table of pairs
    layout = LAYOUTS[name]
    size = layout.num_dst
    inputs = [
        normal(size, HEADS, FEATS),
        normal(size, HEADS, FEATS, seed=1),
        normal(size, HEADS, 2),
    ]
    found = geometric_bias(layout, *inputs, None).exp()
    expected = naive_weights(layout, *inputs)
    assert_same([found], [expected])
    assert_same(gradients([found], inputs), gradients([expected], inputs))
    itself = [j == i for j, i in pairs_of(layout)]
    assert bool((found[itself] == 0).all()) and bool((found[[not x for x in itself]] > 0).all())


@pytest.mark.parametrize("name", LAYOUTS)
def test_geometric_bias_of_a_frontier_is_that_of_its_edges(name: str) -> None:
    layout, frontier = LAYOUTS[name], torch.tensor([1, 2, 6, 8])
    query, key, toward = (normal(layout.num_dst, HEADS, n, seed=n) for n in (FEATS, FEATS, 2))
    whole = geometric_bias(layout, query, key, toward, None)
    part = geometric_bias(layout, query[frontier], key, toward[frontier], frontier)
    edge = layout.in_edges(frontier)[2]
    assert torch.equal(part[edge].exp(), whole[edge].exp()) or torch.allclose(
        part[edge].exp(), whole[edge].exp(), atol=1e-14
    )


def test_geometric_bias_does_not_lose_digits_in_long_batches() -> None:
    layout = Complete().layout([40] * 40)
    query, key = (normal(1600, HEADS, FEATS, seed=n) for n in (0, 1))
    zeros = torch.zeros(1600, HEADS, 2)
    exact = geometric_bias(layout, query, key, zeros.double(), None)[-1600:].exp()
    found = geometric_bias(layout, query.float(), key.float(), zeros, None)[-1600:].exp()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, atol=1e-6, rtol=1e-4)
