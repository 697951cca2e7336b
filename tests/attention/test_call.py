from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphut.attention.call import AttentionCall
from graphut.attention.dropout import dropout_factors
from tests.helpers import layout_of

# Edge ids 0 to 3; by destination they are 1, 2 | 0, 3.
LAYOUT = layout_of([(0, 1), (0, 0), (1, 0), (1, 1)], 2, 2)
X = torch.zeros(2, 3, 4)
CALL = AttentionCall(layout=LAYOUT, query=X, key=X, value=X, seed=5)


def test_attention_call_edges_follow_the_frontier() -> None:
    call = replace(
        CALL,
        query=X[:1],
        frontier=torch.tensor([1]),
        edge_bias=torch.arange(4.0)[:, None],
        dropout=0.5,
    )
    row, source, edge = call.edges
    assert (row.tolist(), source.tolist(), edge.tolist()) == ([0, 0], [0, 1], [0, 3])
    bias, factors = call.bias(), call.weight_factors()
    assert bias is not None and factors is not None
    assert bias.tolist() == [[0.0], [3.0]]
    assert torch.equal(factors, dropout_factors(edge, 3, 0.5, 5, torch.float32))


def test_attention_call_is_plain_without_terms_of_single_edges() -> None:
    assert CALL.is_plain and CALL.bias() is None and CALL.weight_factors() is None
    others = [{"edge_bias": torch.zeros(4, 1)}, {"dropout": 0.1}, {"need_weights": True}]
    assert not any(replace(CALL, **other).is_plain for other in others)


@pytest.mark.parametrize(
    ("given", "scores"),
    [(torch.float64, torch.float64), (torch.float32, torch.float32)]
    + [(narrow, torch.float32) for narrow in (torch.bfloat16, torch.float16)],
)
def test_attention_call_score_dtype_is_float32_or_wider(
    given: torch.dtype, scores: torch.dtype
) -> None:
    call = replace(CALL, query=X.to(given), edge_bias=torch.zeros(4, 1, dtype=given))
    assert call.score_dtype == scores
    bias = call.bias()
    assert bias is not None and bias.dtype == scores
