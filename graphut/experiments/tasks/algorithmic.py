"""Copy, reverse and addition over decimal symbols, tested on ten times the training length."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from string import digits
from typing import ClassVar

import numpy as np

from graphut.experiments.tasks.base import PARTS, DrawnTask, Pair, PairTask
from graphut.experiments.tasks.presets import COPY, NARROW_LAYERS, with_baselines
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.models.checked_config import option
from graphut.sentences import EOS

_DIGITS = Vocabulary(digits)
_SUMS = Vocabulary([*digits, "+"])
_PLUS = 10
_LONG = ("up-to", "exactly")  # test sets

# For lengths beyond training, positions have random gaps, the source stands between `<bos>` and
# `<eos>`, and scores grow with the in-degree. Two wide heads tell all positions apart, and offsets
# go beyond 400, since the largest ones are seldom seen. Epochs are long: a validation set of short
# sequences is all right long before the long ones are.
_COPY = (
    COPY
    | {"num_heads": 2, "max_offset": 460, "scale_by_degree": True}
    | {"spread_positions": True, "add_bos_eos": True}
    | {"epoch_size": 120_000, "epochs": 4}
)
# The answer begins with the last token, which positions from the end find. With post-norm, six
# steps for every token reverse no sequence of 400 digits.
_REVERSE = _COPY | {"source_positions": "both", "norm": "pre"}
# Positions start again after the plus: digits of the same place have the same one. A carry comes
# from the place before, so that a token of any number needs to see only its neighbours in it.
_ADDITION = (
    _COPY
    | {"ponder_weight": 1e-3, "epochs": 6, "restart_after": _SUMS.encode("+")[0]}
    | {"encoder_topology": "window:2", "decoder_topology": "window:2&causal"}
)


@dataclass(frozen=True)
class AlgorithmicTask(DrawnTask, PairTask):
    """Random digits, and an answer that is computed from them.

    The protocol of Universal Transformers (arXiv 1807.03819, section 3.4) with the
    generators of tensor2tensor: training sequences have up to 40 symbols, and the model
    is judged on lengths up to 400. The paper does not say whether its 400 is a limit or
    the length of every test sequence, so there is a test set for each: `up-to-400` and
    `exactly-400`; `test` has the lengths of training. Here every epoch has new sequences,
    where tensor2tensor has 100,000 once and for all. No curriculum. The pairs of validation and
    test depend on the options alone, so that runs of different seeds are judged by the same pairs.
    """

    source_vocabulary: ClassVar[Vocabulary] = _DIGITS

    train_length: int = option(40, "longest source in training, in symbols", least=3)
    test_length: int = option(400, "longest source in the long test sets, in symbols", least=3)
    epoch_size: int = option(10_000, "training sequences in an epoch", least=1)
    held_out: int = option(1000, "sequences in the validation set, and in each test set", least=1)

    @staticmethod
    @abstractmethod
    def answer(source: list[int], /) -> list[int]:
        """Return the target of a source; both are digits, not token ids."""

    @cached_property
    def test_sets(self) -> Mapping[str, list[Pair]]:
        """`test`, with the lengths of training; `up-to-400`; `exactly-400`."""
        long = {f"{part}-{self.test_length}": self.load(part) for part in _LONG}
        return {"test": self.test, **long}

    def draw(self, count: int, part: str, *stream: int) -> list[Pair]:
        """Draw pairs of a part, or of the long sequences "up-to" or "exactly" `test_length`."""
        random = np.random.default_rng([(*PARTS, *_LONG).index(part), *stream])
        longest = self.test_length if part in _LONG else self.train_length
        sources = [self._source(random, longest, part == "exactly") for _ in range(count)]
        return [(_tokens(source), _tokens(self.answer(source))) for source in sources]

    def _source(self, random: np.random.Generator, longest: int, exactly: bool) -> list[int]:
        return _digits(random, longest if exactly else int(random.integers(1, longest + 1)))


class AlgorithmicCopy(AlgorithmicTask):
    """Digits as they came, tested on ten times the length."""

    name: ClassVar[str] = "algorithmic-copy"
    presets = with_baselines(_COPY, NARROW_LAYERS)
    answer = staticmethod(list[int].copy)


class AlgorithmicReverse(AlgorithmicTask):
    """Digits from last to first, tested on ten times the length."""

    name: ClassVar[str] = "algorithmic-reverse"
    presets = with_baselines(_REVERSE, NARROW_LAYERS)
    answer = staticmethod(lambda source, /: source[::-1])


class AlgorithmicAddition(AlgorithmicTask):
    """The sum of two numbers, lowest digit first, tested on ten times the length.

    As in tensor2tensor, the first number has at most half of the symbols; the second has any
    length that fits, or, at an exact length, what is left. No number begins with zeros (on
    paper: their last digit is not 0).

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
        """Return the digits of the sum, lowest first."""
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
    """Draw a number's digits, lowest first; 0 is the only one whose highest digit is 0."""
    if length == 1:
        return _digits(random, 1)
    return [*_digits(random, length - 1), int(random.integers(1, 10))]


def _tokens(symbols: list[int]) -> list[int]:
    return [symbol + EOS + 1 for symbol in symbols]
