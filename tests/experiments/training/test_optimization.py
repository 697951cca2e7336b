from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import AdamW, Muon

from graphut.experiments.training import TrainingConfig
from graphut.experiments.training.optimization import make_optimizer, make_schedule
from tests.helpers import assert_same, normal
from tests.models.cases import build_model


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


def test_make_optimizer_muon_is_for_the_matrices_of_steps() -> None:
    config = TrainingConfig(optimizer="muon", learning_rate=0.01)
    ours, theirs = build_model(), build_model()
    together = make_optimizer(ours, config)
    matrices, others = [], []
    for name, weight in theirs.named_parameters():
        is_matrix = weight.dim() == 2 and ".step." in name
        (matrices if is_matrix else others).append(weight)
    assert len(matrices) == 13 and len(others) > 20
    options: Any = {"weight_decay": 0.01, "adjust_lr_fn": "match_rms_adamw"}
    separate = [AdamW(others, 0.01, weight_decay=0.01), Muon(matrices, 0.02, **options)]
    for seed in range(3):
        for pair in zip(ours.parameters(), theirs.parameters(), strict=True):
            for weight in pair:
                weight.grad = normal(*weight.shape, seed=seed).to(weight.dtype)
        for optimizer in (together, *separate):
            optimizer.step()
    assert_same([*ours.parameters()], [*theirs.parameters()], 1e-6)


def test_make_optimizer_muon_needs_a_torch_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    config = TrainingConfig(optimizer="muon")
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(ImportError, match="'muon' needs torch"):
        make_optimizer(build_model(), config)
