from typing import Any

import pytest
from torch import nn
from torch.optim import AdamW, Muon

from graphut.experiments.training import TrainingConfig
from graphut.experiments.training.optimization import (
    learning_rate_factor,
    make_optimizer,
    ponder_factor,
)
from tests.helpers import assert_same, normal
from tests.models.cases import build_model


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


def test_make_optimizer_muon_is_for_the_matrices_of_steps() -> None:
    config = TrainingConfig(optimizer="muon", learning_rate=0.01)
    ours, theirs = build_model(), build_model()
    together = make_optimizer(ours, config)
    matrices, others = [], []
    for name, weight in theirs.named_parameters():
        is_matrix = weight.dim() == 2 and ".step." in name
        (matrices if is_matrix else others).append(weight)
    fused = [weight for name, weight in theirs.named_parameters() if "key_value.weight" in name]
    assert len(matrices) == 13 and len(fused) == 3 and len(others) > 20
    apart = [weight for weight in matrices if all(weight is not each for each in fused)]
    halves = {weight: [nn.Parameter(half) for half in weight.data.chunk(2)] for weight in fused}
    options: Any = {"weight_decay": 0.01, "adjust_lr_fn": "match_rms_adamw"}
    muon = Muon([*apart, *(half for pair in halves.values() for half in pair)], 0.02, **options)
    separate = [AdamW(others, 0.01, weight_decay=0.01), muon]
    for seed in range(3):
        for pair in zip(ours.parameters(), theirs.parameters(), strict=True):
            for weight in pair:
                weight.grad = normal(*weight.shape, seed=seed).to(weight.dtype)
        for weight, pair in halves.items():
            for half, gradient in zip(pair, weight.grad.chunk(2), strict=True):
                half.grad = gradient
        for optimizer in (together, *separate):
            optimizer.step()
    assert_same([*ours.parameters()], [*theirs.parameters()], 1e-6)


def test_ponder_factor_rises_from_zero() -> None:
    assert [ponder_factor(update, 2) for update in range(4)] == [0.0, 0.5, 1.0, 1.0]
    assert ponder_factor(0, 0) == 1.0
