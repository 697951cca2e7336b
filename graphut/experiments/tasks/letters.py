"""Copy, reverse and sort, over letters: the tasks of DGL's tutorial."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from string import ascii_lowercase
from typing import ClassVar

import numpy as np

from graphut.experiments.tasks.base import Pair, PairTask
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.sentences import EOS

_LETTERS = Vocabulary(ascii_lowercase)
_TRAIN, _VALIDATION, _TEST = range(3)


@dataclass(frozen=True)
class LetterTask(PairTask):
    """Random letters, and an answer that is computed from them.

    The defaults are those of DGL's tutorial "Transformer as a Graph Neural Network",
    but for `fixed` (there, every epoch has the same 9000 pairs) and `short_share`.

    Parameters
    ----------
    mean_length, length_deviation : float
        Lengths are drawn from a normal, rounded, and at least 1.
    epoch_size : int
        Training pairs in an epoch.
    held_out : int
        Pairs in the validation set, and in the test set. They depend on the fields
        above alone, so that runs of different seeds are judged by the same pairs.
    short_share : float
        Share of the training sequences whose length is even between 1 and the mean: the normal
        has next to none of the short ones that people try first. Held-out sets are without.
    fixed : bool
        The tutorial's training pairs: the same every epoch, and no share of short ones.
    """

    mean_length: float = field(
        default=15.0, metadata={"help": "mean length of the sequences, in letters"}
    )
    length_deviation: float = field(
        default=3.0, metadata={"help": "standard deviation of the lengths, in letters"}
    )
    epoch_size: int = field(default=9000, metadata={"help": "training sequences in an epoch"})
    held_out: int = field(
        default=1000, metadata={"help": "sequences in the validation set, and in the test set"}
    )
    short_share: float = field(
        default=0.1,
        metadata={"help": "share of training sequences drawn evenly from length 1 to the mean"},
    )
    fixed: bool = field(
        default=False,
        metadata={"help": "the same training sequences every epoch, none of them short"},
    )

    def __post_init__(self) -> None:
        self._check_at_least(1, "epoch_size", "held_out")
        if not self.mean_length > 0:
            raise ValueError(f"mean_length must be positive, got {self.mean_length}")
        if not self.length_deviation >= 0:
            raise ValueError(f"length_deviation must be 0 or more, got {self.length_deviation}")
        if not 0 <= self.short_share <= 1:
            raise ValueError(f"short_share must be in [0, 1], got {self.short_share}")

    @abstractmethod
    def answer(self, source: list[int]) -> list[int]:
        """The target of a source."""

    @property
    def source_vocabulary(self) -> Vocabulary:
        return _LETTERS

    @property
    def target_vocabulary(self) -> Vocabulary:
        return _LETTERS

    def train(self, seed: int, epoch: int) -> list[Pair]:
        if self.fixed:
            return self._draw(self.epoch_size, 0, _TRAIN, seed, 0)
        short = round(self.short_share * self.epoch_size)
        return self._draw(self.epoch_size, short, _TRAIN, seed, epoch)

    @cached_property
    def validation(self) -> list[Pair]:
        return self._draw(self.held_out, 0, _VALIDATION)

    @cached_property
    def test(self) -> list[Pair]:
        return self._draw(self.held_out, 0, _TEST)

    def _draw(self, count: int, short: int, *stream: int) -> list[Pair]:
        random = np.random.default_rng(stream)
        lengths = random.normal(self.mean_length, self.length_deviation, count).round()
        lengths[:short] = random.integers(1, max(2, round(self.mean_length) + 1), short)
        ends = np.maximum(lengths.astype(np.int64), 1).cumsum()
        letters = random.integers(EOS + 1, len(_LETTERS), ends[-1])
        sources: list[list[int]] = [part.tolist() for part in np.split(letters, ends[:-1])]
        return [(source, self.answer(source)) for source in sources]


class Copy(LetterTask):
    """The letters as they came.

    Examples
    --------
    >>> Copy().answer([4, 2, 3])
    [4, 2, 3]
    """

    name: ClassVar[str] = "copy"

    def answer(self, source: list[int]) -> list[int]:
        return list(source)


class Reverse(LetterTask):
    """The letters from last to first.

    Examples
    --------
    >>> Reverse().answer([4, 2, 3])
    [3, 2, 4]
    """

    name: ClassVar[str] = "reverse"

    def answer(self, source: list[int]) -> list[int]:
        return source[::-1]


class Sort(LetterTask):
    """The letters in the order of the alphabet.

    Examples
    --------
    >>> Sort().answer([4, 2, 3])
    [2, 3, 4]
    """

    name: ClassVar[str] = "sort"

    def answer(self, source: list[int]) -> list[int]:
        return sorted(source)
