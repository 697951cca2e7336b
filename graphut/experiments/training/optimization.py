"""The optimizer, and how the learning rate changes in the course of training."""

from __future__ import annotations

from collections.abc import Iterable
from math import cos, pi

from torch import nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from graphut.experiments.training.config import TrainingConfig


def make_optimizer(parameters: Iterable[nn.Parameter], config: TrainingConfig) -> Optimizer:
    """Return AdamW (Loshchilov and Hutter, arXiv 1711.05101) or Adam (arXiv 1412.6980)."""
    kind, own = AdamW if config.optimizer == "adamw" else Adam, list(parameters)
    return kind(
        own,
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        fused=own[0].is_cuda or None,  # one kernel for all weights
    )


def make_schedule(optimizer: Optimizer, config: TrainingConfig, updates: int) -> LambdaLR:
    """Return a schedule of `learning_rate_factor` over a number of updates."""
    return LambdaLR(optimizer, lambda done: learning_rate_factor(done, config.warmup, updates))


def update_rate(optimizer: Optimizer, schedule: LambdaLR) -> None:
    """Set the learning rate of the next update to that of a schedule, which may be another now."""
    for group, base in zip(optimizer.param_groups, schedule.base_lrs, strict=True):
        group["lr"] = base * schedule.lr_lambdas[0](schedule.last_epoch)


def learning_rate_factor(done: int, warmup: int, updates: int) -> float:
    """Return the share of the largest learning rate: up on a line, then down on a cosine to 0.

    Counted in updates: those done, those on the way up (half of all, if that is less), and all.

    Examples
    --------
    >>> [learning_rate_factor(done, 2, 10) for done in (0, 1, 2, 6, 10)]
    [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    warmup = min(warmup, updates // 2)
    if done < warmup:
        return (done + 1) / warmup
    progress = (done - warmup) / max(updates - warmup, 1)
    return (1 + cos(pi * min(progress, 1.0))) / 2


def late_share(done: float) -> float:
    """Return the share of the weight of late losses, after a share of all updates is `done`.

    It is 0 in the first 20% of the updates, and then rises linearly to 1 at 50%.

    Examples
    --------
    >>> [round(late_share(done), 3) for done in (0.1, 0.2, 0.35, 0.5, 0.9)]
    [0.0, 0.0, 0.5, 1.0, 1.0]
    """
    return min(max(done - 0.2, 0.0) / 0.3, 1.0)
