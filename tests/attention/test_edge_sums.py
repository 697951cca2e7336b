from __future__ import annotations

import pytest
import torch

from graphut.attention import edge_sums
from graphut.attention.edge_sums import edge_dot, edge_sum
from tests.helpers import assert_same, gradients, normal

TO_ROWS, FROM_ROWS = torch.tensor([0, 2, 2, 1, 0]), torch.tensor([3, 0, 3, 1, 1])


@pytest.mark.parametrize("entries", [1, 7, 1000])
@pytest.mark.parametrize("heads", [1, 2])
def test_edge_dot_and_edge_sum_are_loops_over_edges(
    heads: int, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_sums, "_ENTRIES", entries)
    a, b, weights = normal(3, 2, 4), normal(4, heads, 4, seed=1), normal(5, 2, seed=2)
    dots = edge_dot(a, b, TO_ROWS, FROM_ROWS)
    sums = edge_sum(weights, b, TO_ROWS, FROM_ROWS, rows=3)
    ends = list(zip(TO_ROWS.tolist(), FROM_ROWS.tolist(), strict=True))
    expected_dots = torch.stack([(a[i] * b[j]).sum(-1) for i, j in ends])
    rows = [
        [weights[e, :, None] * b[j] for e, (i, j) in enumerate(ends) if i == r] for r in (0, 1, 2)
    ]
    expected_sums = torch.stack([torch.stack(row).sum(0) for row in rows])
    assert_same([dots, sums], [expected_dots, expected_sums])
    inputs = [a, b, weights]
    assert_same(gradients([dots, sums], inputs), gradients([expected_dots, expected_sums], inputs))
    assert_same([torch.func.vmap(lambda x: edge_dot(x, b, TO_ROWS, FROM_ROWS))(a[None])[0]], [dots])
