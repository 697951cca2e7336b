import pytest
import torch

from graphut.nn import Quantized
from tests.helpers import refuses


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_quantized_rounds_tanh_and_passes_its_gradient(levels: int) -> None:
    states = torch.linspace(-3, 3, 25, dtype=torch.float64, requires_grad=True)
    rounded = Quantized(levels).round(states)
    assert torch.equal(rounded, (states.tanh() * levels).round() / levels)
    assert torch.equal(rounded, Quantized(levels).round(states.detach()))
    rounded.sum().backward()
    assert states.grad is not None
    torch.testing.assert_close(states.grad, 1 - states.detach().tanh().square())


def test_quantized_refuses_wrong_values() -> None:
    for levels in (0, 1.5):
        with pytest.raises(ValueError, match=f"a whole number, at least 1; got {levels}"):
            Quantized(levels)  # type: ignore[arg-type]
    for noise in (-1.0, float("nan")):
        refuses(f"noise must be 0 or more and finite, got {noise}", Quantized, noise=noise)
