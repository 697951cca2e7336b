"""How to train."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal


def _option(default: Any, help: str) -> Any:
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How to train: the fields are the options of `graphut train`, with the same help.

    An *update* is one step of the optimizer, on one batch; an *epoch* is one pass over the
    training pairs, and ends with an evaluation on the validation pairs.

    Raises
    ------
    ValueError
        If a value is out of range; the message quotes it.

    Examples
    --------
    >>> TrainingConfig(batch_size=32).batch_size
    32
    """

    epochs: int = _option(60, "passes over the training pairs, at most")
    batch_size: int = _option(64, "sentences in a batch")
    optimizer: Literal["adamw", "adam"] = _option("adamw", "rule of the updates")
    learning_rate: float = _option(1e-3, "largest learning rate, reached after the warm-up")
    warmup: int = _option(400, "updates in which the learning rate rises from 0")
    weight_decay: float = _option(0.01, "per unit of the learning rate (adam: added to gradients)")
    clip_norm: float = _option(1.0, "largest norm of the gradient; above it, it is scaled down")
    label_smoothing: float = _option(0.0, "share of the target spread evenly over the vocabulary")
    ponder_weight: float = _option(0.001, "loss for each step that a token takes, on average")
    ponder_warmup: int = _option(2000, "updates in which the ponder weight rises from 0")
    target_accuracy: float = _option(
        1.0, "stop when this share of the validation sequences was right in 3 epochs in a row"
    )
    patience: int = _option(20, "stop when so many epochs in a row were all worse than one before")
    seed: int = _option(0, "of the weights, the training pairs and their order, and dropout")

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience", "learning_rate", "clip_norm"):
            self._check(name, getattr(self, name) > 0, "positive")
        for name in ("warmup", "weight_decay", "ponder_weight", "ponder_warmup", "seed"):
            self._check(name, getattr(self, name) >= 0, "0 or more")
        self._check("label_smoothing", 0 <= self.label_smoothing < 1, "in [0, 1)")
        self._check("target_accuracy", 0 < self.target_accuracy <= 1, "in (0, 1]")
        self._check("optimizer", self.optimizer in ("adamw", "adam"), "'adamw' or 'adam'")

    def _check(self, name: str, right: bool, range_: str) -> None:
        value = getattr(self, name)
        if not right or not (isinstance(value, str) or isfinite(value)):
            raise ValueError(f"{name} must be {range_}, got {value!r}")
