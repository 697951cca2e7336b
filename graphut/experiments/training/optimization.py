"""The optimizer, and the schedules of its learning rate and of late losses."""

from collections.abc import Mapping
from math import cos, pi
from typing import Any

import torch
from torch import nn
from torch.optim import Adam, AdamW, Optimizer

from graphut.experiments.training.config import TrainingConfig
from graphut.nn import AdaptiveRecurrence, MultiHeadAttention


def make_optimizer(model: nn.Module, config: TrainingConfig) -> Optimizer:
    """Return AdamW (arXiv 1711.05101), Adam (arXiv 1412.6980) or Muon, with values in `config`.

    Muon (arXiv 2502.16982) trains the weight matrices of linear layers in steps, and AdamW the
    other weights. Muon's updates have a root mean square of about 0.4 times the learning rate. It
    treats the fused matrix of keys and values as two matrices. Raise `ImportError` if torch has no
    Muon.
    """
    kind = Adam if config.optimizer == "adam" else AdamW
    rate, decay = config.learning_rate, config.weight_decay
    options: dict[str, Any] = {"lr": rate, "weight_decay": decay, "fused": True}  # one kernel
    if config.optimizer != "muon":
        return kind(model.parameters(), **options)
    if not hasattr(torch.optim, "Muon"):
        raise ImportError(f"the optimizer 'muon' needs torch 2.9 or newer, not {torch.__version__}")
    matrices = _matrices(model)
    others = [weight for weight in model.parameters() if weight not in matrices]
    return _MuonAndAdamW(matrices, kind(others, **options), 2 * rate, decay)


def _matrices(model: nn.Module) -> dict[nn.Parameter, int]:
    """Return the weights of all linear layers in steps, with the number of matrices in each."""
    recurrences = [part for part in model.modules() if isinstance(part, AdaptiveRecurrence)]
    layers = [part for each in recurrences for step in each.steps for part in step.modules()]
    weights: dict[Any, int] = {part.weight: 1 for part in layers if isinstance(part, nn.Linear)}
    for part in layers:
        if isinstance(part, MultiHeadAttention):
            weights |= {layer.weight: 2 for layer in getattr(part, "key_values", [part.key_value])}
    return weights


class _MuonAndAdamW(Optimizer):
    """Muon for matrices, some of them stacked in one weight, and another optimizer for the rest."""

    def __init__(
        self, matrices: Mapping[nn.Parameter, int], rest: Optimizer, rate: float, decay: float
    ) -> None:
        # Parameters that share the memory of the weights.
        self._parts = {
            weight: [nn.Parameter(part) for part in weight.detach().chunk(count)]
            for weight, count in matrices.items()
        }
        parts = [part for parts in self._parts.values() for part in parts]
        # "match_rms_adamw" makes the root mean square of an update 0.2 times the rate of Muon.
        options: dict[str, Any] = {"weight_decay": decay, "adjust_lr_fn": "match_rms_adamw"}
        self._optimizers = [rest, torch.optim.Muon(parts, lr=rate, **options)]
        super().__init__([group for each in self._optimizers for group in each.param_groups], {})

    def step(self) -> None:  # type: ignore[override]
        for weight, parts in self._parts.items():
            gradients = (
                [None] * len(parts) if weight.grad is None else weight.grad.chunk(len(parts))
            )
            for part, gradient in zip(parts, gradients, strict=True):
                part.grad = gradient
        for optimizer, group in zip(self._optimizers, self.param_groups, strict=True):
            optimizer.param_groups, optimizer.state = [group], self.state
            optimizer.step()


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


def ponder_factor(update: int, warmup: int) -> float:
    """Return the factor of the ponder cost's weight: it rises from 0 to 1 in `warmup` updates."""
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
