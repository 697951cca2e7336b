"""The optimizer and its learning rate."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from graphut.experiments.training.config import TrainingConfig
from graphut.experiments.training.schedules import learning_rate_factor


def make_optimizer(parameters: Iterable[nn.Parameter], config: TrainingConfig) -> Optimizer:
    """AdamW (Loshchilov and Hutter, arXiv 1711.05101) or Adam (arXiv 1412.6980)."""
    kind = AdamW if config.optimizer == "adamw" else Adam
    return kind(parameters, lr=config.learning_rate, weight_decay=config.weight_decay)


def make_schedule(optimizer: Optimizer, config: TrainingConfig, updates: int) -> LambdaLR:
    """A schedule of `learning_rate_factor` over a number of updates."""
    return LambdaLR(optimizer, lambda done: learning_rate_factor(done, config.warmup, updates))
