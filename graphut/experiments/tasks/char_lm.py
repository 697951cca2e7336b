"""A language model of characters, for any text file."""

from dataclasses import MISSING, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphut._files import reraise_for_file
from graphut.experiments.tasks.base import PARTS, Text, TextTask, random_windows, strided_windows
from graphut.experiments.tasks.files import read_text
from graphut.experiments.tasks.presets import (
    LANGUAGE_MODEL,
    WIDE_LAYERS,
    model_size,
    with_baselines,
)
from graphut.models.checked_config import option
from graphut.vocabulary import Characters, Vocabulary

_ORIGIN = (
    "get tiny-shakespeare from https://github.com/karpathy/char-rnn, data/tinyshakespeare/input.txt"
)
_SMALL = (
    LANGUAGE_MODEL
    | model_size(128, 512, 6)
    | {"batch_size": 16, "learning_rate": 2e-3, "epochs": 30}
)


@dataclass(frozen=True)
class CharLM(TextTask):
    """Language modelling of a text file, character by character.

    The first nine tenths of the file are the training set, the next twentieth is the validation
    set, and the rest is the test set. An epoch consists of random windows (pieces of `window`
    characters). In validation and test, each character is predicted once, with at least half a
    window of context if there is as much text before it.
    """

    name = "char-lm"
    presets = with_baselines(_SMALL, WIDE_LAYERS)

    data: str | Path = option(MISSING, f"text file; {_ORIGIN}")
    window: int = option(128, "characters in a window", least=2)
    epoch_size: int = option(2000, "windows in an epoch", least=1)

    @cached_property
    def vocabulary(self) -> Characters:
        return Characters.of(self._text)

    def train(self, seed: int, epoch: int) -> list[Text]:
        tokens, count = self._tokens["train"], self.epoch_size
        return random_windows(tokens, self.window, count, seed=seed, epoch=epoch)

    def load(self, part: str) -> list[Text]:
        return strided_windows(self._tokens[part], self.window)

    def read(self, path: str | Path, vocabulary: Vocabulary) -> list[Text]:
        text = read_text(path)
        with reraise_for_file(path, ""):
            return strided_windows(np.array(vocabulary.read(text), dtype=np.int32), self.window)

    @cached_property
    def _tokens(self) -> dict[str, NDArray[Any]]:
        tokens = np.array(self.vocabulary.read(self._text), dtype=np.int32)
        ends = [len(tokens) * 18 // 20, len(tokens) * 19 // 20]
        return dict(zip(PARTS, np.split(tokens, ends), strict=True))

    @cached_property
    def _text(self) -> str:
        text = read_text(self.data, _ORIGIN)
        if len(text) < 20 * self.window:
            raise ValueError(
                f"{self.data} has {len(text)} characters: too few for windows of {self.window}; "
                f"give at least {20 * self.window}, or a smaller window"
            )
        return text
