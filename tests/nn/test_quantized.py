from __future__ import annotations

import pytest
import torch

from graphut.nn import Quantized


def test_quantized_rounds_tanh_and_passes_its_gradient() -> None:
    states = torch.linspace(-3, 3, 25, dtype=torch.float64, requires_grad=True)
    rounded = Quantized(levels=2).round(states)
    assert set(rounded.tolist()) == {-1.0, -0.5, 0.0, 0.5, 1.0}
    assert bool(((rounded - states.tanh()).detach().abs() <= 0.25).all())
    rounded.sum().backward()
    assert states.grad is not None
    torch.testing.assert_close(states.grad, 1 - states.detach().tanh().square())


@pytest.mark.parametrize(
    ("options", "words"),
    [({"levels": 0}, "levels .* got 0"), ({"noise": -1.0}, "noise .* got -1"),
     ({"noise": float("nan")}, "noise .* got nan")],
)  # fmt: skip
def test_quantized_refuses_wrong_values(options: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Quantized(**options)  # type: ignore[arg-type]
