import pytest

from graphut.experiments.training.optimization import (
    learning_rate_factor,
    ponder_factor,
)


@pytest.mark.parametrize(
    ("warmup", "updates", "expected"),
    [
        (2, 6, [0.5, 1.0, 1.0, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5, 0.0]),
        (400, 4, [0.5, 1.0, 1.0, 0.5, 0.0]),  # at most half of training
        (400, 1, [1.0, 0.0]),
        (0, 1, [1.0, 0.0]),
    ],
)
def test_learning_rate_factor_rises_and_falls(
    warmup: int, updates: int, expected: list[float]
) -> None:
    found = [learning_rate_factor(update, warmup, updates) for update in range(updates + 1)]
    assert found == pytest.approx(expected)


def test_ponder_factor_rises_from_zero() -> None:
    for warmup, updates in ((2, 9), (2000, 4)):  # at most half of training
        assert [ponder_factor(n, warmup, updates) for n in range(4)] == [0.0, 0.5, 1.0, 1.0]
    assert ponder_factor(0, 0, 9) == ponder_factor(0, 9, 1) == 1.0
