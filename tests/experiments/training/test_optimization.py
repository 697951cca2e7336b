import pytest
from torch import nn

from graphut.experiments.training import TrainingConfig
from graphut.experiments.training.optimization import make_optimizer, make_schedule


@pytest.mark.parametrize(
    ("warmup", "updates", "expected"),
    [
        (2, 6, [1.0, 2.0, 2.0, 1 + 0.5**0.5, 1.0, 1 - 0.5**0.5, 0.0]),
        (400, 4, [1.0, 2.0, 2.0, 1.0, 0.0]),  # at most half of training
        (400, 1, [2.0, 0.0]),
        (0, 1, [2.0, 0.0]),
    ],
)
def test_make_schedule_sets_the_rate_of_each_update(
    warmup: int, updates: int, expected: list[float]
) -> None:
    config = TrainingConfig(learning_rate=2.0, warmup=warmup)
    optimizer = make_optimizer(nn.Linear(2, 2), config)
    schedule = make_schedule(optimizer, config, updates)
    rates = []
    for _ in range(updates + 1):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == pytest.approx(expected)
