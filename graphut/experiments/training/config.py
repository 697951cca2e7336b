"""The settings of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphut.models.checked_config import CheckedConfig, option


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(CheckedConfig):
    """The settings of training: the options of `graphut train`, with the same help.

    An *update* is one step of the optimizer, on one batch; an *epoch* is one pass over the
    training examples, and ends with an evaluation on the validation examples. A value that is of
    another type or out of range raises `ValueError`, which quotes it.
    """

    epochs: int = option(60, "passes over the training examples, at most", least=1)
    batch_size: int = option(64, "examples in a batch", least=1)
    optimizer: Literal["adamw", "adam"] = option("adamw", "rule of the updates")
    learning_rate: float = option(1e-3, "largest learning rate, reached after the warm-up")
    warmup: int = option(
        400, "updates in which the learning rate rises from 0, half of all at most", least=0
    )
    weight_decay: float = option(
        0.01, "per unit of the learning rate (adam: added to gradients)", least=0
    )
    clip_norm: float = option(1.0, "largest norm of the gradient; above it, it is scaled down")
    ema: float = option(
        0.0,
        "decay, at each update, of an exponential moving average of the weights; it is what is "
        "validated and kept (0: the weights themselves)",
    )
    label_smoothing: float = option(0.0, "share of the target spread evenly over the vocabulary")
    ponder_weight: float = option(
        0.001, "loss for each step that a token takes, on average", least=0
    )
    ponder_warmup: int = option(2000, "updates in which the ponder weight rises from 0", least=0)
    ponder_wait: int = option(
        0,
        "epochs in a row without a better validation before the ponder weight rises; only after "
        "that may target_accuracy end the run (0: it rises from the start)",
        least=0,
    )
    linear_start: int = option(
        0,
        "first epochs that train without the softmax of attention; validation has it always",
        least=0,
    )
    min_steps: int = option(
        0,
        "train each batch with a cap drawn from this many steps to max_steps (0: with max_steps)",
        least=0,
    )
    target_accuracy: float = option(
        1.0,
        "stop when the validation set was as good as this in 3 epochs in a row: the share that was "
        "right; of questions, how likely the right answers were; of translations, BLEU / 100",
    )
    patience: int = option(
        20,
        "stop, after the warm-up, when this many epochs in a row were all worse than the best one",
        least=1,
    )
    choose_by: Literal["task", "log_probability", "last"] = option(
        "task",
        "the epoch whose model is kept: the best one on the validation set, by the usual metrics "
        "of the task or by the mean log-probability of the right answers; or the last one: then "
        "neither target_accuracy nor patience ends the run",
    )
    precision: Literal["auto", "float32", "bfloat16"] = option(
        "auto",
        "of the forward pass; weights and gradients are float32 whatever it is (auto: bfloat16 on "
        "a GPU, and on a CPU with instructions for it, if graphut train measures that it is faster "
        "there; else float32)",
    )
    seed: int = option(
        0,
        "of the training examples and their order; graphut train: of weights and dropout too",
        least=0,
    )

    def _check_values(self) -> None:
        for name in ("learning_rate", "clip_norm"):
            self._check(name, getattr(self, name) > 0, "positive")
        self._check("ponder_wait", self.ponder_wait < self.patience, "less than patience")
        best = self.choose_by != "last" or not self.ponder_wait
        self._check("ponder_wait", best, "0 where choose_by is 'last'")
        self._check("seed", self.seed < 2**63, "below 2**63")
        self._check("ema", 0 <= self.ema < 1, "in [0, 1)")
        self._check("label_smoothing", 0 <= self.label_smoothing < 1, "in [0, 1)")
        self._check("target_accuracy", 0 < self.target_accuracy <= 1, "in (0, 1]")

    def autocasts(self, device: str) -> bool:
        """Return whether the forward pass is in bfloat16 on a device of that kind.

        Examples
        --------
        >>> TrainingConfig().autocasts("cuda"), TrainingConfig().autocasts("cpu")
        (True, False)
        """
        return self.precision == "bfloat16" or (self.precision == "auto" and device == "cuda")
