"""The optimizer, and the schedules of its learning rate and of late losses."""

from math import cos, pi

from torch import nn
from torch.optim import Adam, AdamW, Optimizer

from graphut.experiments.training.config import TrainingConfig


def make_optimizer(model: nn.Module, config: TrainingConfig) -> Optimizer:
    """Return AdamW (arXiv 1711.05101) or Adam (arXiv 1412.6980), with values in `config`."""
    kind = Adam if config.optimizer == "adam" else AdamW
    rate, decay = config.learning_rate, config.weight_decay
    return kind(model.parameters(), lr=rate, weight_decay=decay, fused=True)  # one kernel


def learning_rate_factor(update: int, warmup: int, updates: int) -> float:
    """Return the learning rate after `update` updates, relative to its largest value.

    The factor rises linearly during `warmup` updates (at most half of all `updates`), and then
    falls to 0 along a cosine.
    """
    warmup = min(warmup, updates // 2)
    if update < warmup:
        return (update + 1) / warmup
    return (1 + cos(pi * min((update - warmup) / max(updates - warmup, 1), 1.0))) / 2


def ponder_factor(update: int, warmup: int, updates: int) -> float:
    """Return the factor of the ponder weight; arguments are as for `learning_rate_factor`."""
    warmup = min(warmup, updates // 2)
    return min(update / warmup, 1.0) if warmup else 1.0


def late_share(fraction: float) -> float:
    """Return the factor of the losses in `Outcome.late` after a fraction of the training.

    The factor is 0 in the first 20% of the updates, and rises linearly to 1 at 50%.

    Examples
    --------
    >>> [round(late_share(done), 3) for done in (0.1, 0.2, 0.35, 0.5, 0.9)]
    [0.0, 0.0, 0.5, 1.0, 1.0]
    """
    return min(max(fraction - 0.2, 0.0) / 0.3, 1.0)
