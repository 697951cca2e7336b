from __future__ import annotations

import pytest
import torch

from graphut.nn import Quantized


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_quantized_rounds_tanh_and_passes_its_gradient(levels: int) -> None:
    states = torch.linspace(-3, 3, 25, dtype=torch.float64, requires_grad=True)
    rounded = Quantized(levels).round(states)
    assert torch.equal(rounded, (states.tanh() * levels).round() / levels)
    assert torch.equal(rounded, Quantized(levels).round(states.detach()))
    rounded.sum().backward()
    assert states.grad is not None
    torch.testing.assert_close(states.grad, 1 - states.detach().tanh().square())


@pytest.mark.parametrize(
    ("options", "words"),
    [({"levels": 0}, "levels .* got 0"), ({"levels": 1.5}, "levels .* got 1.5"),
     ({"noise": -1.0}, "noise .* got -1"),
     ({"noise": float("nan")}, "noise .* got nan")],
)  # fmt: skip
def test_quantized_refuses_wrong_values(options: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Quantized(**options)  # type: ignore[arg-type]
