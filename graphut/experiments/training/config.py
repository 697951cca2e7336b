"""The options of training and of generation."""

from dataclasses import dataclass
from typing import Literal

from graphut.models.checked_config import CheckedConfig, option
from graphut.models.config import SearchOptions


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(CheckedConfig):
    """The hyperparameters of training, which are also the options of `graphut train`.

    An *update* is one step of the optimizer on one batch. An *epoch* is one pass over the training
    examples, followed by an evaluation on the validation examples. A wrong value raises
    `ValueError`.
    """

    epochs: int = option(60, "largest number of passes over the training examples", least=1)
    batch_size: int = option(64, "number of examples in a batch", least=1)
    optimizer: Literal["adamw", "adam"] = option("adamw", "optimizer")
    learning_rate: float = option(1e-3, "largest learning rate, reached after the warm-up")
    warmup: int = option(
        400,
        "number of updates during which the learning rate rises from 0, at most half of all",
        least=0,
    )
    weight_decay: float = option(
        0.01, "weight decay, or L2 penalty of adam, added to the gradient", least=0
    )
    clip_norm: float = option(1.0, "norm to which a larger gradient is scaled down")
    ema: float = option(
        0.0,
        "decay per update of an exponential moving average of the weights; the average is "
        "validated and kept (0: no average)",
    )
    label_smoothing: float = option(
        0.0, "share of the target's probability that is spread evenly over the vocabulary"
    )
    ponder_weight: float = option(
        0.001, "weight of the ponder cost, the mean number of steps, in the loss", least=0
    )
    ponder_warmup: int = option(
        2000, "number of updates in which the ponder weight rises, at most half of all", least=0
    )
    target_accuracy: float = option(
        1.0,
        "stop after 3 epochs in a row with this accuracy on the validation set (questions, "
        "graphs: geometric mean of the probabilities of the correct answers; values: R2; "
        "translation: BLEU / 100)",
    )
    patience: int = option(
        20,
        "stop, after the warm-up, when this many epochs in a row were worse than the best epoch",
        least=1,
    )
    choose_by: Literal["task", "log_probability", "last", "accuracy", "auc", "mae", "r2"] = option(
        "task",
        "epoch whose model is kept: the best on the validation set by the metric of the task, by "
        "the mean log-probability of the correct answers, or by another metric that the task has; "
        "or the last, and then neither target_accuracy nor patience ends the run",
    )
    precision: Literal["auto", "float32", "bfloat16"] = option(
        "auto",
        "precision of the forward pass; weights and gradients are always float32 (auto: bfloat16 "
        "on a GPU, float32 on a CPU)",
    )
    seed: int = option(
        0,
        "seed of training examples and their order; in graphut train also of weights and dropout",
        least=0,
    )

    def _check_values(self) -> None:
        self._check("learning_rate", self.learning_rate > 0, "positive")
        self._check("clip_norm", self.clip_norm > 0, "positive")
        self._check("seed", self.seed < 2**63, "below 2**63")
        self._check("ema", 0 <= self.ema < 1, "in [0, 1)")
        self._check("label_smoothing", 0 <= self.label_smoothing < 1, "in [0, 1)")
        self._check("target_accuracy", 0 < self.target_accuracy <= 1, "in (0, 1]")

    def autocasts(self, device: str) -> bool:
        """Return whether the forward pass uses bfloat16 on a device type, "cpu" or "cuda"."""
        return self.precision == "bfloat16" or (self.precision == "auto" and device == "cuda")


@dataclass(frozen=True, kw_only=True)
class GenerationOptions(SearchOptions):
    """The options of a model that generates text; the default is greedy decoding."""

    seed: int = option(0, "seed for sampling")

    def _check_values(self) -> None:
        super()._check_values()
        self._check("seed", 0 <= self.seed < 2**63, "at least 0 and below 2**63")


EVALUATION_OPTIONS = ("beam_size", "length_penalty")
"""The options of generation that change how a model is evaluated."""
