"""Sequences of random letters or digits: copy, reverse, sort and addition."""

from dataclasses import dataclass
from itertools import zip_longest
from string import ascii_lowercase, digits
from typing import Any, ClassVar

import numpy as np

from graphut._tokens import EOS
from graphut.experiments.tasks.base import PARTS, DrawnTask, Pair, PairTask
from graphut.experiments.tasks.presets import COPY, NARROW_LAYERS, PAIRS, model_size, with_baselines
from graphut.models.checked_config import option
from graphut.vocabulary import Vocabulary

_LETTERS = Vocabulary(ascii_lowercase)
_DIGITS = Vocabulary(digits)
_SUMS = Vocabulary([*digits, "+"])
_PLUS = 10
_FIRST = EOS + 1  # the token id of the first symbol

# Without offsets, the model fails on the few sequences that are much longer than the mean.
_COPY_LETTERS = COPY | {"max_offset": 10}
# With post-norm, a fixed number of six steps does not learn to reverse.
_REVERSE_LETTERS = _COPY_LETTERS | {"norm": "pre"}
_SORT_LETTERS = PAIRS | {"learning_rate": 3e-3, "halting_bias": -2.0, "ponder_weight": 1e-4}

# To generalise to longer sequences, positions have random gaps, the source is enclosed in `<bos>`
# and `<eos>`, and attention scores grow with the in-degree. Two wide heads distinguish all
# positions, and offsets exceed 400 because the largest ones are rare. Epochs are long, because
# the accuracy on short validation sequences reaches 1 long before the one on long sequences.
_COPY = (
    COPY
    | {"num_heads": 2, "max_offset": 460, "scale_by_degree": True}
    | {"spread_positions": True, "add_bos_eos": True}
    | {"epoch_size": 120_000, "epochs": 4}
)
# The answer begins with the last token, which is at the first position counted from the end. With
# post-norm, a fixed number of six steps reverses no sequence of 400 digits.
_REVERSE = _COPY | {"source_positions": "both", "norm": "pre"}
# Positions restart after the plus sign, so that digits of the same place share a position. A carry
# comes from the neighbouring place, so a window of two neighbours is enough. The mean of two equal
# digits is the digit, as where only one number has a digit at this place; with a vector for each
# number the model tells these cases apart.
_ADDITION = (
    _COPY
    | model_size(64, 248, 3)
    | {"norm": "pre", "symmetric_init": True, "ponder_weight": 1e-3}
    | {"restart_after": _SUMS.encode("+")[0], "segment_embedding": True}
    | {"encoder_topology": "window:2", "decoder_topology": "window:2&causal"}
    | {"learning_rate": 4e-3, "batch_size": 32, "epochs": 3, "ema": 0.999, "choose_by": "last"}
)


@dataclass(frozen=True)
class LetterTask(DrawnTask, PairTask):
    """A base class of tasks on random letters.

    The defaults come from DGL's tutorial "Transformer as a Graph Neural Network", with two changes.
    Each epoch has new pairs. Lengths have a normal distribution, which has few short sequences;
    therefore a share `short_share` of the training sequences has uniform lengths up to the mean.
    The validation and test sets have no such share.
    """

    source_vocabulary: ClassVar[Vocabulary] = _LETTERS
    answer: ClassVar[Any]  # a function from a source to its target

    mean_length: float = option(15.0, "mean length of the sequences, in letters", least=1)
    length_deviation: float = option(3.0, "standard deviation of the lengths, in letters", least=0)
    epoch_size: int = option(9000, "training sequences in an epoch", least=1)
    held_out: int = option(1000, "sequences in the validation set, and in the test set", least=1)
    short_share: float = option(
        0.1, "share of training sequences with a length drawn uniformly from 1 to the mean"
    )

    def _check_values(self) -> None:
        self._check("short_share", 0 <= self.short_share <= 1, "in [0, 1]")

    def draw(self, count: int, part: str, *stream: int) -> list[Pair]:
        random = np.random.default_rng([PARTS.index(part), *stream])
        short = round(self.short_share * count) if part == "train" else 0
        lengths = random.normal(self.mean_length, self.length_deviation, count).round()
        lengths[:short] = random.integers(1, max(2, round(self.mean_length) + 1), short)
        ends = np.maximum(lengths.astype(np.int64), 1).cumsum()
        letters = random.integers(_FIRST, len(_LETTERS), ends[-1])
        sources: list[list[int]] = [part.tolist() for part in np.split(letters, ends[:-1])]
        return [(source, self.answer(source)) for source in sources]


class Copy(LetterTask):
    """Copy a sequence of letters."""

    name: ClassVar[str] = "copy"
    presets = with_baselines(_COPY_LETTERS, NARROW_LAYERS)
    answer = staticmethod(list[int].copy)


class Reverse(LetterTask):
    """Reverse a sequence of letters."""

    name: ClassVar[str] = "reverse"
    presets = with_baselines(_REVERSE_LETTERS, NARROW_LAYERS)
    answer = staticmethod(lambda source, /: source[::-1])


class Sort(LetterTask):
    """Sort a sequence of letters alphabetically."""

    name: ClassVar[str] = "sort"
    presets = with_baselines(_SORT_LETTERS, NARROW_LAYERS)
    answer = staticmethod(sorted)


@dataclass(frozen=True)
class AlgorithmicTask(DrawnTask, PairTask):
    """A base class of tasks on random digits, tested on ten times the training length.

    The protocol of Universal Transformers (arXiv 1807.03819, section 3.4) with the generators of
    tensor2tensor: training sequences have up to 40 symbols, and test sequences up to 400. The
    paper does not say whether 400 is the maximum or the exact length, so there are two test sets,
    `up-to-400` and `exactly-400`; `test` has the training lengths. Each epoch has new sequences,
    whereas tensor2tensor draws 100,000 once.
    """

    source_vocabulary: ClassVar[Vocabulary] = _DIGITS
    answer: ClassVar[Any]  # a function from a source to its target

    train_length: int = option(40, "maximum source length in training, in symbols", least=3)
    test_length: int = option(400, "maximum source length in the long test sets", least=3)
    epoch_size: int = option(10_000, "training sequences in an epoch", least=1)
    held_out: int = option(1000, "sequences in the validation set, and in each test set", least=1)

    @property
    def test_sets(self) -> list[str]:
        return ["test", f"up-to-{self.test_length}", f"exactly-{self.test_length}"]

    def draw(self, count: int, part: str, *stream: int) -> list[Pair]:
        parts = ["train", "validation", *self.test_sets]
        random = np.random.default_rng([parts.index(part), *stream])
        longest = self.train_length if part in PARTS else self.test_length
        is_exact = part.startswith("exactly")
        sources = [self._source(random, longest, is_exact) for _ in range(count)]
        return [
            ([_FIRST + digit for digit in source], [_FIRST + x for x in self.answer(source)])
            for source in sources
        ]

    def _source(self, random: np.random.Generator, longest: int, exactly: bool) -> list[int]:
        return _digits(random, longest if exactly else int(random.integers(1, longest + 1)))


class AlgorithmicCopy(AlgorithmicTask):
    """Copy a sequence of digits; tested on ten times the training length."""

    name: ClassVar[str] = "algorithmic-copy"
    presets = with_baselines(_COPY, NARROW_LAYERS)
    answer = staticmethod(list[int].copy)


class AlgorithmicReverse(AlgorithmicTask):
    """Reverse a sequence of digits; tested on ten times the training length."""

    name: ClassVar[str] = "algorithmic-reverse"
    presets = with_baselines(_REVERSE, NARROW_LAYERS)
    answer = staticmethod(lambda source, /: source[::-1])


class AlgorithmicAddition(AlgorithmicTask):
    """Add two numbers, lowest digit first; tested on ten times the training length.

    As in tensor2tensor, the first number has at most half of the symbols, and the second has any
    length that fits, or fills the rest in `exactly-400`. There are no leading zeros. In a list of
    digits, 10 is the plus sign.

    Examples
    --------
    >>> AlgorithmicAddition().answer([9, 9, 10, 3])  # 99 + 3 = 102
    [2, 0, 1]
    """

    name: ClassVar[str] = "algorithmic-addition"
    presets = with_baselines(_ADDITION, NARROW_LAYERS)
    source_vocabulary = _SUMS

    @staticmethod
    def answer(source: list[int], /) -> list[int]:
        """Return the digits of the sum, lowest first, for the symbols of two numbers and a plus."""
        plus = source.index(_PLUS)
        total, carry = [], 0
        for a, b in zip_longest(source[:plus], source[plus + 1 :], fillvalue=0):
            carry, digit = divmod(a + b + carry, 10)
            total.append(digit)
        return [*total, carry] if carry else total

    def _source(self, random: np.random.Generator, longest: int, exactly: bool) -> list[int]:
        first = int(random.integers(1, longest // 2 + 1))
        room = longest - first - 1
        second = room if exactly else int(random.integers(1, room + 1))
        return [*_number(random, first), _PLUS, *_number(random, second)]


def _digits(random: np.random.Generator, count: int) -> list[int]:
    return random.integers(10, size=count).tolist()


def _number(random: np.random.Generator, length: int) -> list[int]:
    """Draw the digits of a number, lowest first, without leading zeros."""
    if length == 1:
        return _digits(random, 1)
    return [*_digits(random, length - 1), int(random.integers(1, 10))]
