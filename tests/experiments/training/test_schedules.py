from __future__ import annotations

import pytest

from graphut.experiments.training.schedules import learning_rate_factor, ponder_factor


def test_learning_rate_rises_falls_and_ends_at_zero() -> None:
    factors = [learning_rate_factor(done, 10, 50) for done in range(51)]
    assert factors[0] == 0.1
    assert max(factors) == factors[9] == factors[10] == 1.0
    assert factors[:10] == sorted(factors[:10])
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert factors[30] == pytest.approx(0.5)
    assert factors[50] == 0.0 < factors[49]


def test_no_warm_up() -> None:
    assert learning_rate_factor(0, 0, 4) == 1.0
    assert ponder_factor(0, 0) == 1.0


def test_a_warm_up_longer_than_half_of_training_is_half_of_it() -> None:
    assert [learning_rate_factor(done, 400, 4) for done in range(5)] == [0.5, 1.0, 1.0, 0.5, 0.0]
    assert learning_rate_factor(0, 400, 1) == 1.0


def test_after_the_end_the_rate_stays_zero() -> None:
    assert learning_rate_factor(100, 10, 50) == 0.0


def test_ponder_weight_rises_from_zero() -> None:
    assert [ponder_factor(done, 2) for done in range(4)] == [0.0, 0.5, 1.0, 1.0]
