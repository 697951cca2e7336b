import itertools
import re
from math import inf, nan
from typing import Any

import pytest
import torch

from graphut.attention import edge_attention
from graphut.topology import Causal, Complete
from tests.attention.naive import ON_CPU
from tests.helpers import layout_of, refuses

LAYOUT = Causal().layout([3])  # 3 nodes, 6 edges
X = torch.zeros(3, 2, 4)
CALL = {"query": X, "key": X, "value": X}


def test_check_call_names_a_wrong_argument() -> None:
    def check(words: str, **wrong: Any) -> None:
        refuses(re.escape(words), edge_attention, LAYOUT, **CALL | wrong)

    edge_attention(LAYOUT, **CALL)
    check("query must be (nodes, heads, features), got shape (2, 4)", query=X[0])
    check("query must be floating point, got torch.int64", query=X.long())
    check("key is torch.float64, but query is torch.float32", key=X.double())
    check("key is on meta, but query is on cpu", key=X.to("meta"))
    check("edge_bias is on meta", edge_bias=torch.zeros(6, device="meta"))
    check("query has 2 rows, but the graph has 3 destinations", query=X[:2])
    check("query has 3 rows, but the frontier has 1 nodes", frontier=torch.tensor([1]))
    check("key has 2 rows, but the graph has 3 sources", key=X[:2])
    check("key has 1 heads, but query has 2", key=X[:, :1])
    check("key has 3 features a head, but query has 4", key=X[..., :3])
    check("frontier must be sorted and without rep", frontier=torch.tensor([0, 1, 1]))
    check("frontier names destination 3; the graph", frontier=torch.tensor([0, 1, 3]))
    check("got shape (3,) and torch.bool", frontier=torch.ones(3).bool())
    check("for a mask, pass torch.zeros(mask.shape)", edge_bias=torch.ones(6).bool())
    check("edge_bias must be a tensor, got list", edge_bias=[0.0] * 6)
    check("query must be a tensor, got ndarray", query=X.numpy())
    check("key must be a tensor, got NoneType", key=None)
    check("edge_weight must be floating point, got", edge_weight=torch.ones(6).long())
    check("edge_bias must be (6,) or (6, 2)", edge_bias=torch.zeros(5))
    check("got shape (6, 3)", edge_bias=torch.zeros(6, 3))
    check("edge_bias[3] is nan: it must be -inf", edge_bias=torch.tensor([0, 0, -inf, nan, 0, 0]))
    check("edge_bias[1] is inf: it must be -inf", edge_bias=torch.tensor([0, inf, -inf, 0, 0, 0]))
    check("frontier is on meta, but query", frontier=torch.ones(3, device="meta"))
    check("scale must be a finite number, got nan", scale=nan)
    check("scale must be a finite number, got tensor", scale=torch.ones(3))
    check("dropout must lie in [0, 1), got 1.0", dropout=1.0)
    check("query has no features: its shape is (3, 2, 0)", **dict.fromkeys(CALL, X[..., :0]))
    check("query has no heads: its shape is (3, 0, 4)", **dict.fromkeys(CALL, X[:, :0]))
    check("unknown backend 'cuda'; choose one of: auto, dense, dgl", backend="cuda")


@pytest.mark.parametrize("backend", ["auto", *ON_CPU])
def test_edge_attention_names_a_number_that_is_not_finite(backend: str) -> None:
    """Also where the output is finite: in a row that nobody reads, or with a score of -inf."""
    layout = layout_of([(0, 0), (2, 0), (2, 1)], 3, 2)
    for key_row, number in itertools.product((1, 2), (nan, inf, -inf)):
        for name, row in {"query": 1, "key": key_row, "value": key_row}.items():
            wrong = CALL | {"query": X[:2].abs()}
            wrong[name] = wrong[name].clone()
            wrong[name][row, 1, 2] = number
            for weights in (False, True):
                options = {"backend": backend, "get_attention": weights}
                words = rf"{name}\[{row}, 1, 2\] is {number}: it must be finite"
                refuses(words, edge_attention, layout, **wrong, **options)


@pytest.mark.parametrize("backend", ["auto", *ON_CPU])
def test_edge_attention_refuses_scores_and_values_that_overflow(backend: str) -> None:
    large = torch.full((3, 2, 4), 1e20)
    words = "scores or values overflow torch.float32: scale"
    refuses(words, edge_attention, LAYOUT, large, large, X, backend=backend)
    refuses(words, edge_attention, LAYOUT, X, X, large * 3e18, dropout=0.5, seed=0, backend=backend)


@pytest.mark.parametrize("backend", ["auto", *ON_CPU])
def test_edge_attention_takes_a_bias_that_is_the_smallest_number(backend: str) -> None:
    bias = torch.tensor([0.0, torch.finfo(torch.float32).min, 0.0, -inf, 0.0, 0.0])
    x = torch.full((3, 1, 4), -1e6)
    found = edge_attention(LAYOUT, x, x, torch.eye(3)[:, None], edge_bias=bias, backend=backend)
    assert found[1, 0].tolist() == [0.0, 1.0, 0.0]


def test_edge_attention_takes_features_whose_sum_overflows() -> None:
    big = torch.full((3, 1, 4), 1e38)
    out = edge_attention(Complete().graph([3]), torch.zeros(3, 1, 4), torch.zeros(3, 1, 4), big)
    torch.testing.assert_close(out, big)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"edge_feat": torch.ones(3, 4)},
            r"or \(3, 1, 2\) without, .* got shapes \(3, 4\) and None",
        ),
        (
            {"edge_feat": torch.ones(3, 4), "edge_map": torch.ones(1, 4, 2)},
            r"\(3, F\) with an edge_map \(1, 2, F\), .* \(3, 4\) and \(1, 4, 2\)",
        ),
        ({"edge_map": torch.ones(1, 2, 4)}, "edge_map maps edge features: pass edge_feat too"),
        ({"edge_weight": torch.ones(4)}, r"edge_weight must be \(3,\) or \(3, 1\)"),
        ({"edge_weight": torch.tensor([1.0, torch.inf, 2.0])}, r"edge_weight\[1\] is inf"),
        (
            {"edge_feat": torch.ones(3, 1, 2), "value": torch.ones(2, 1, 1)},
            "for a value with 2 features; got .*, and 1 features",
        ),
        ({"edge_feat": torch.full((3, 1, 2), 3e38)}, r"scores or values overflow torch\.float32"),
    ],
)
def test_check_features_and_weights_of_edges(options: dict[str, Any], words: str) -> None:
    layout, x = layout_of([(0, 0), (1, 1), (0, 1)], 2, 2), torch.full((2, 1, 2), 5.0)
    refuses(words, edge_attention, layout, **{"query": x, "key": x, "value": x} | options)


@pytest.mark.parametrize("backend", ON_CPU)
def test_check_nonempty_rows_names_destinations_that_attend_to_nobody(backend: str) -> None:
    layout = layout_of([(0, 0), (0, 2)], 1, 9)
    query, key = torch.zeros(9, 1, 2), torch.zeros(1, 1, 2)
    with pytest.raises(ValueError, match=r"7 destination.*node 1, 3, 4, 5, 6, \.\.\."):
        edge_attention(layout, query, key, key, backend=backend)
    options: dict[str, Any] = {"frontier": torch.tensor([2, 4]), "backend": backend}
    with pytest.raises(ValueError, match=r"1 destination.*node 4\).*allow_zero_in_degree=True"):
        edge_attention(layout, query[:2], key, key, **options)
    options["frontier"], bias = options["frontier"][:1], torch.tensor([0.0, -inf])
    with pytest.raises(ValueError, match=r"1 destination.*whose bias is above -inf \(node 2\)"):
        edge_attention(layout, query[:1], key, key, edge_bias=bias, **options)
    assert edge_attention(layout, query[:1], key, key, **options).shape == (1, 1, 2)
