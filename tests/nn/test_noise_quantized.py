import pytest

from graphut.nn import Quantized
from tests.helpers import refuses


def test_quantized_refuses_wrong_values() -> None:
    for levels in (0, 1.5):
        with pytest.raises(ValueError, match=f"a whole number, at least 1; got {levels}"):
            Quantized(levels)  # type: ignore[arg-type]
    for noise in (-1.0, float("nan")):
        refuses(f"noise must be 0 or more and finite, got {noise}", Quantized, noise=noise)
