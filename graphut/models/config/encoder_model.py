"""Configurations of the models with only an encoder: the pointer model and the classifier."""

from dataclasses import MISSING, dataclass
from typing import Literal

from graphut.models.checked_config import option
from graphut.models.config.base import ModelConfig
from graphut.topology import parse


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(ModelConfig):
    """A base class of configurations for models with only an encoder."""

    vocab_size: int = option(MISSING, "size of the vocabulary", least=3)
    topology: str = option("complete", "nodes that a node attends to")
    positions: Literal["start", "end", "fixed"] = option(
        "start", "count from the start, or from the end; fixed: the last position is max_length"
    )

    def _check_values(self) -> None:
        super()._check_values()
        self._check_defaults(self.positions != "fixed", "if positions is 'fixed'", "max_offset")
        self._check_extra_nodes(self._parsed("topology", parse))


@dataclass(frozen=True, kw_only=True)
class UniversalTransformerPointerConfig(EncoderConfig):
    """The configuration of a `UniversalTransformerPointer`."""


@dataclass(frozen=True, kw_only=True)
class UniversalTransformerClassifierConfig(EncoderConfig):
    """The configuration of a `UniversalTransformerClassifier`.

    The nodes are sentences. In the help of inherited fields, a token is a sentence.
    """

    classes: int = option(MISSING, "number of classes", least=2)
    longest_sentence: int = option(20, "maximum number of words in a sentence", least=1)
    mask_init: Literal["normal", "ones"] = option(
        "normal", "initial masks of word positions in a sentence: normal around one, or all ones"
    )
    readout: Literal["last", "mean"] = option(
        "last", "state that predicts the class: the last node's, or the mean of all nodes"
    )
    step_loss_weight: float = option(
        0.0, "weight of an additional loss of the predictions after every step", least=0
    )
