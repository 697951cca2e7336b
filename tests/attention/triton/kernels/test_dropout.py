from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="needs triton")

from graphut.attention import layout_from_edges
from graphut.attention.dropout import dropout_factors
from tests.attention.triton.cases import DEVICE, attend


@pytest.mark.parametrize("seed", [0, 1, 7, 2**31 + 5, 2**61 - 1])
@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.999])
def test_the_mask_is_that_of_every_backend(dropout: float, seed: int) -> None:
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
