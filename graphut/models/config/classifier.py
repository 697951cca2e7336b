"""The configuration of the classifier of documents."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Literal

from graphut.models.checked_config import option
from graphut.models.config.encoder_model import EncoderConfig


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
