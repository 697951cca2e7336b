import pytest
import torch
from torch import nn

from graphut.experiments.training import TrainingConfig
from graphut.experiments.training.optimization import (
    learning_rate_factor,
    make_optimizer,
    make_schedule,
)


def test_make_schedule_sets_the_rate_of_each_update() -> None:
    config = TrainingConfig(learning_rate=2.0, warmup=2)
    optimizer = make_optimizer([nn.Parameter(torch.zeros(2))], config)
    schedule = make_schedule(optimizer, config, updates=6)
    rates = []
    for _ in range(7):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == pytest.approx([1.0, 2.0, 2.0, 1 + 0.5**0.5, 1.0, 1 - 0.5**0.5, 0.0])


def test_learning_rate_factor_warms_up_in_at_most_half_of_training() -> None:
    assert learning_rate_factor(0, 0, 4) == learning_rate_factor(0, 400, 1) == 1.0
    assert [learning_rate_factor(done, 400, 4) for done in range(5)] == [0.5, 1.0, 1.0, 0.5, 0.0]
