from __future__ import annotations

import torch

from graphut.nn.loop_state import squared_change


def test_squared_change_is_a_mean_square_in_float32_or_wider() -> None:
    shown = torch.tensor([[2.0, 0.0], [1.0, 1.0]], dtype=torch.bfloat16)
    new = torch.tensor([[2.0, 4.0], [1.0, 1.0]], dtype=torch.bfloat16)
    change = squared_change(new, shown, relative=False)
    assert change.dtype == torch.float32 and change.tolist() == [8.0, 0.0]
    assert squared_change(new, shown, relative=True).tolist() == [4.0, 0.0]


def test_squared_change_relative_to_zero_is_finite() -> None:
    change = squared_change(torch.ones(1, 2), torch.zeros(1, 2), relative=True)
    assert bool(change.isfinite().all()) and float(change) > 1e6
