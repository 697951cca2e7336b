"""Attention by loops over edges, from its definition; the graphs and options of the tests."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from graphut.attention import BACKENDS, EdgeLayout
from graphut.attention.dropout import dropout_factors
from graphut.topology import Causal, Complete, Window
from tests.helpers import Pairs, cross_edges, layout_of, normal, pairs_of
from tests.topology.brute import Back, Comb


def naive_attention(
    pairs: Pairs,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    bias: Tensor | None = None,
    scale: float | None = None,
    factors: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`(N_dst, H, Dv)` sums and `(E, H)` weights; `bias` and `factors` are `(E, H)`."""
    num_dst, heads, feats = query.shape
    scale = feats**-0.5 if scale is None else scale
    out = [[value.new_zeros(value.shape[2])] * heads for _ in range(num_dst)]
    weights = [[value.new_zeros(())] * heads for _ in pairs]
    for i in range(num_dst):
        edges = [e for e, (_, dst) in enumerate(pairs) if dst == i]
        for h in range(heads):
            scores = {e: query[i, h] @ key[pairs[e][0], h] * scale for e in edges}
            if bias is not None:
                scores = {e: score + bias[e, h] for e, score in scores.items()}
            seen = [e for e in edges if scores[e] > -torch.inf]
            if not seen:
                continue
            top = max(scores[e].item() for e in seen)
            exps = {e: (scores[e] - top).exp() for e in seen}
            total = sum(exps.values())
            for e in seen:
                weights[e][h] = exps[e] / total * (1.0 if factors is None else factors[e, h])
            out[i][h] = sum(weights[e][h] * value[pairs[e][0], h] for e in seen)
    table = [torch.stack(row) for row in weights]
    return (
        torch.stack([torch.stack(row) for row in out]),
        torch.stack(table) if table else query.new_zeros(0, heads),
    )


def hubs(num_src: int, num_dst: int, edges: int, seed: int = 0) -> EdgeLayout:
    """Random edges in random order; half of them meet at node 0 of either side."""
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(num_src, (edges,), generator=generator)
    dst = torch.randint(num_dst, (edges,), generator=generator)
    src[::4], dst[1::4] = 0, 0
    return layout_of(list(zip(src.tolist(), dst.tolist(), strict=True)), num_src, num_dst)


# Backends that take any float on the CPU; "triton" is tried in tests/attention/triton.
ON_CPU = [name for name in BACKENDS if name != "triton"]

GRAPHS: dict[str, EdgeLayout] = {
    "complete": Complete().layout([3, 1, 4]),
    "alike": Complete().layout([3, 3]),
    "causal": Causal().layout([4, 1, 2]),
    "causal-alike": Causal().layout([3, 3]),
    "window": Window(1).layout([5, 2]),
    "cross": cross_edges(Complete(), [3, 1], [2, 4]),
    "cross-causal": cross_edges(Causal(), [2, 4], [3, 2]),
    "some-empty": Back(1).layout([4, 1, 2]),
    "all-empty": Back(9).layout([2, 2]),
    "rows": Comb(2).layout([5, 3]),
    "hubs": hubs(5, 9, 24),
    "parallel": layout_of([(1, 0), (0, 1), (1, 0), (2, 0), (1, 0), (0, 1)], 3, 2),
    "no-edges": layout_of([], 2, 3),
}


def inputs(
    layout: EdgeLayout, rows: int | None = None, value_feats: int = 3
) -> tuple[Tensor, Tensor, Tensor]:
    """Random query, key and value of two heads, with 3 features unless for values."""
    rows = layout.num_dst if rows is None else rows
    return (
        normal(rows, 2, 3, seed=1),
        normal(layout.num_src, 2, 3, seed=2),
        normal(layout.num_src, 2, value_feats, seed=3),
    )


def hidden(edges: int) -> Tensor:
    """Return a bias of edges that removes a third of them."""
    bias = normal(edges, seed=4).detach()
    bias[::3] = -torch.inf
    return bias.requires_grad_()


#: Options of a call with two heads of three features, given the number of edges.
OPTIONS: dict[str, Callable[[int], dict[str, Any]]] = {
    "plain": lambda edges: {},
    "bias": lambda edges: {
        "edge_bias": normal(edges, 2, seed=4),
        "scale": 0.3,
        "dropout": 0.4,
        "seed": 9,
        "get_attention": True,
    },
    "one bias": lambda edges: {"edge_bias": hidden(edges)},
    "weights": lambda edges: {
        "edge_weight": normal(edges, 2, seed=8),
        "dropout": 0.3,
        "seed": 4,
        "get_attention": True,
    },
    "one weight": lambda edges: {"edge_weight": normal(edges, seed=8)},
    "features": lambda edges: {"edge_feat": normal(edges, 2, 3, seed=6)},
    "mapped features": lambda edges: {
        "edge_feat": normal(edges, 5, seed=6),
        "edge_map": normal(2, 3, 5, seed=7),
        **OPTIONS["bias"](edges),
    },
}


def by_head(values: Tensor) -> Tensor:
    """Return values of edges, `(E,)` or `(E, 2)`, for two heads."""
    return values if values.dim() == 2 else values[:, None].expand(-1, 2)


def definition(
    layout: EdgeLayout, query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Return the output and the weights by `naive_attention` of a call with such options."""
    pairs = pairs_of(layout)
    source = torch.tensor([src for src, _ in pairs], dtype=torch.int64)
    if "edge_feat" in options:  # one source for each edge, with the keys and values of that edge
        of_edges = options["edge_feat"]
        if "edge_map" in options:
            of_edges = torch.einsum("ef,hdf->ehd", of_edges, options["edge_map"])
        key, value = key[source] + of_edges, value[source] + of_edges
        pairs = [(edge, dst) for edge, (_, dst) in enumerate(pairs)]
    factors = torch.ones(len(pairs), 2, dtype=torch.float64)
    if "dropout" in options:
        every, given = torch.arange(len(pairs)), (options["dropout"], options["seed"])
        factors = dropout_factors(every, 2, *given, torch.float64)
    if "edge_weight" in options:
        factors = factors * by_head(options["edge_weight"])
    bias = by_head(options["edge_bias"]) if "edge_bias" in options else None
    scale = options.get("scale")
    return naive_attention(pairs, query, key, value, bias=bias, scale=scale, factors=factors)
