import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

from graphut.attention import layout_from_edges
from graphut.attention.dropout import dropout_factors
from tests.attention.triton.cases import DEVICE, SHAPES, agrees, attend, by_kernels, drawn
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


@pytest.mark.parametrize("seed", [0, 1, 7, 2**31 + 5, 2**61 - 1])
@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.999])
def test_dropout_factor_is_that_of_every_backend(dropout: float, seed: int) -> None:
    # Four sources of equal weight with one-hot values: the output is the mask.
    source, heads = torch.arange(4), 3
    layout = layout_from_edges(source, torch.zeros_like(source), num_src=4, num_dst=1)
    value = torch.eye(4, device=DEVICE)[:, None].expand(4, heads, 4)
    zeros = torch.zeros(4, heads, 1, device=DEVICE)
    out = attend(
        layout.to(DEVICE), zeros[:1], zeros, value, scale=1.0, dropout=dropout, seed=seed
    ).cpu()
    mask = dropout_factors(source, heads, dropout, seed, torch.float32)
    torch.testing.assert_close(out[0], mask.T / 4)
