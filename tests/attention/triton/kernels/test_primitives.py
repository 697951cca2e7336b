from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

from tests.attention.triton.cases import SHAPES, agrees, by_kernels, drawn
from tests.helpers import layout_of


@pytest.mark.parametrize("shape", SHAPES)
def test_finite_keeps_huge_scores_from_overflow(shape: str) -> None:
    layout = SHAPES[shape]
    query, *others = (x.detach() for x in drawn(layout))
    agrees(layout, [query * 1e4, *others], 1e-4)


@pytest.mark.parametrize("pairs", [[(0, 0), (1, 0), (1, 2)], [(0, 0), (2, 0), (1, 2)]], ids=str)
def test_log_sum_of_dead_destinations_passes_no_gradient(
    pairs: list[tuple[int, int]],
) -> None:
    layout = layout_of(pairs, 3, 3)  # none into 1, -inf alone into 2
    bias = torch.tensor([[0.5], [1.0], [-torch.inf]]).requires_grad_()
    out, to_query, *others = by_kernels(layout, drawn(layout), edge_bias=bias)
    assert not out[1:].any() and out[0].any()
    assert not to_query[1:].any() and to_query[0].any()
    assert not others[-1][2:].any()
    assert all(gradient.isfinite().all() for gradient in others)
