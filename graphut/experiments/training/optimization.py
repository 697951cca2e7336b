"""The optimizer and the schedule of its learning rate."""

from collections.abc import Iterable
from math import cos, pi

from torch import nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from graphut.experiments.training.config import TrainingConfig


def make_optimizer(parameters: Iterable[nn.Parameter], config: TrainingConfig) -> Optimizer:
    """Return AdamW (arXiv 1711.05101) or Adam (arXiv 1412.6980), with the values in `config`."""
    return (AdamW if config.optimizer == "adamw" else Adam)(
        parameters,
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        fused=True,  # one kernel for all operations
    )


def make_schedule(optimizer: Optimizer, config: TrainingConfig, updates: int) -> LambdaLR:
    """Return a scheduler with `learning_rate_factor`; `updates` is the length of the training."""
    return LambdaLR(optimizer, lambda update: learning_rate_factor(update, config.warmup, updates))


def learning_rate_factor(update: int, warmup: int, updates: int) -> float:
    """Return the learning rate after `update` updates, relative to its largest value.

    The factor rises linearly during `warmup` updates (at most half of all `updates`), and then
    falls to 0 along a cosine.
    """
    warmup = min(warmup, updates // 2)
    if update < warmup:
        return (update + 1) / warmup
    progress = (update - warmup) / max(updates - warmup, 1)
    return (1 + cos(pi * min(progress, 1.0))) / 2


def late_share(fraction: float) -> float:
    """Return the factor of the losses in `Outcome.late` after a fraction of the training.

    The factor is 0 in the first 20% of the updates, and rises linearly to 1 at 50%.

    Examples
    --------
    >>> [round(late_share(done), 3) for done in (0.1, 0.2, 0.35, 0.5, 0.9)]
    [0.0, 0.0, 0.5, 1.0, 1.0]
    """
    return min(max(fraction - 0.2, 0.0) / 0.3, 1.0)
