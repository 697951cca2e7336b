"""The optimizer and the schedule of its learning rate."""

from math import cos, pi
from typing import Any

import torch
from torch import nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from graphut.experiments.training.config import TrainingConfig
from graphut.nn import AdaptiveRecurrence


def make_optimizer(model: nn.Module, config: TrainingConfig) -> Optimizer:
    """Return AdamW (arXiv 1711.05101), Adam (arXiv 1412.6980) or Muon, with values in `config`.

    Muon (arXiv 2502.16982) trains the weight matrices of linear layers in steps, and AdamW the
    other weights. Muon's updates have a root mean square of about 0.4 times the learning rate.
    Raise `ImportError` if torch has no Muon.
    """
    kind, matrices = Adam if config.optimizer == "adam" else AdamW, []
    if config.optimizer == "muon":
        if not hasattr(torch.optim, "Muon"):
            raise ImportError(
                f"the optimizer 'muon' needs torch 2.9 or newer, not {torch.__version__}"
            )
        matrices = _matrices(model)
    others = [weight for weight in model.parameters() if all(weight is not x for x in matrices)]
    rate, decay = config.learning_rate, config.weight_decay
    rest = kind(others, lr=rate, weight_decay=decay, fused=True)  # one kernel for all operations
    if not matrices:
        return rest
    # "match_rms_adamw" makes the root mean square of an update 0.2 times the rate of Muon.
    options: dict[str, Any] = {"weight_decay": decay, "adjust_lr_fn": "match_rms_adamw"}
    return _Optimizers(rest, torch.optim.Muon(matrices, lr=2 * rate, **options))


def _matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the weights of all linear layers in the steps of a recurrence, each weight once."""
    recurrences = [part for part in model.modules() if isinstance(part, AdaptiveRecurrence)]
    layers = [part for each in recurrences for step in each.steps for part in step.modules()]
    weights: list[Any] = [layer.weight for layer in layers if isinstance(layer, nn.Linear)]
    return [*dict.fromkeys(weights)]


class _Optimizers(Optimizer):
    """Several optimizers that are used as one; each has one group of parameters."""

    def __init__(self, *parts: Optimizer) -> None:
        self._parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})

    def step(self) -> None:  # type: ignore[override]
        for part, group in zip(self._parts, self.param_groups, strict=True):
            part.param_groups, part.state = [group], self.state
            part.step()


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
