"""Copy, reverse and sort letters: the tasks of DGL's tutorial."""

from abc import abstractmethod
from dataclasses import dataclass
from string import ascii_lowercase
from typing import ClassVar

import numpy as np

from graphut._tokens import EOS
from graphut.experiments.tasks.base import PARTS, DrawnTask, Pair, PairTask
from graphut.experiments.tasks.presets import COPY, NARROW_LAYERS, PAIRS, with_baselines
from graphut.models.checked_config import option
from graphut.vocabulary import Vocabulary

_LETTERS = Vocabulary(ascii_lowercase)
# Without offsets, the model fails on the few sequences that are much longer than the mean.
_COPY = COPY | {"max_offset": 10}
# With post-norm, a fixed number of six steps does not learn to reverse.
_REVERSE = _COPY | {"norm": "pre"}
_SORT = PAIRS | {"learning_rate": 3e-3, "halting_bias": -2.0, "ponder_weight": 1e-4}


@dataclass(frozen=True)
class LetterTask(DrawnTask, PairTask):
    """A base class of tasks on random letters: the target is computed from the source.

    The defaults come from DGL's tutorial "Transformer as a Graph Neural Network", with two changes.
    Each epoch has new pairs. Lengths have a normal distribution, which has few short sequences;
    therefore a share `short_share` of the training sequences has uniform lengths up to the mean.
    The validation and test sets have no such share, and are the same for all seeds.
    """

    source_vocabulary: ClassVar[Vocabulary] = _LETTERS

    mean_length: float = option(15.0, "mean length of the sequences, in letters")
    length_deviation: float = option(3.0, "standard deviation of the lengths, in letters", least=0)
    epoch_size: int = option(9000, "training sequences in an epoch", least=1)
    held_out: int = option(1000, "sequences in the validation set, and in the test set", least=1)
    short_share: float = option(
        0.1, "share of training sequences with a length drawn uniformly from 1 to the mean"
    )

    def _check_values(self) -> None:
        self._check("mean_length", self.mean_length > 0, "positive")
        self._check("short_share", 0 <= self.short_share <= 1, "in [0, 1]")

    @staticmethod
    @abstractmethod
    def answer(source: list[int], /) -> list[int]:
        """Return the target sequence of a source sequence, both as token ids."""

    def draw(self, count: int, part: str, *stream: int) -> list[Pair]:
        random = np.random.default_rng([PARTS.index(part), *stream])
        short = round(self.short_share * count) if part == "train" else 0
        lengths = random.normal(self.mean_length, self.length_deviation, count).round()
        lengths[:short] = random.integers(1, max(2, round(self.mean_length) + 1), short)
        ends = np.maximum(lengths.astype(np.int64), 1).cumsum()
        letters = random.integers(EOS + 1, len(_LETTERS), ends[-1])
        sources: list[list[int]] = [part.tolist() for part in np.split(letters, ends[:-1])]
        return [(source, self.answer(source)) for source in sources]


class Copy(LetterTask):
    """Copy a sequence of letters."""

    name: ClassVar[str] = "copy"
    presets = with_baselines(_COPY, NARROW_LAYERS)
    answer = staticmethod(list[int].copy)


class Reverse(LetterTask):
    """Reverse a sequence of letters."""

    name: ClassVar[str] = "reverse"
    presets = with_baselines(_REVERSE, NARROW_LAYERS)
    answer = staticmethod(lambda source, /: source[::-1])


class Sort(LetterTask):
    """Sort a sequence of letters alphabetically."""

    name: ClassVar[str] = "sort"
    presets = with_baselines(_SORT, NARROW_LAYERS)
    answer = staticmethod(sorted)
