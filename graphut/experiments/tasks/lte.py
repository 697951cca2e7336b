"""Learning to Execute: read a program, character by character, and write what it prints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from random import Random
from string import digits
from typing import ClassVar
from zlib import crc32

from graphut.experiments.tasks import programs
from graphut.experiments.tasks.base import Pair, PairTask
from graphut.experiments.tasks.characters import Characters, symbol_of
from graphut.experiments.tasks.vocabulary import Vocabulary

_DIGITS = Vocabulary(digits)
_WRITTEN = f"{digits}+-*=<>(): \n" + "".join(sorted({*programs.VARIABLES, *"printifelseforxrange"}))
_CHARACTERS = Characters(map(symbol_of, _WRITTEN))
_TRAIN, _VALIDATION, _TEST = range(3)
_TRIES = 100  # examples drawn for one that is wanted, at most


@dataclass(frozen=True)
class LearningToExecute(PairTask):
    """Random sources, and the outputs that are computed from them, symbol by symbol.

    Tasks and sizes of Universal Transformers (arXiv 1807.03819, section 3.5, tables 5 and 6);
    programs and the mix strategy of Learning to Execute (arXiv 1410.4615):
    each example has a length and a nesting of its own, even between 1 and the largest. No
    curriculum, and every epoch has new examples. `test` is drawn by the mix strategy too;
    `hardest` has the largest length and nesting only, as the test set of 1410.4615.

    As in the code of 1410.4615, a hash of the source says whether an example may be trained
    on, validated or tested, so that no part ever sees a source of another.

    Parameters
    ----------
    length : int
        The largest length: of digits, or of the numbers in a program (up to `10**length`).
    epoch_size : int
        Training pairs in an epoch.
    held_out : int
        Pairs in the validation set, and in each test set.

    Raises
    ------
    ValueError
        If a number is below 1. When pairs are drawn: if there are too few sources.
    """

    length: int = field(
        default=5, metadata={"help": "the largest length: numbers are up to 10 to this power"}
    )
    epoch_size: int = field(default=10_000, metadata={"help": "training sequences in an epoch"})
    held_out: int = field(
        default=1000, metadata={"help": "sequences in the validation set, and in each test set"}
    )

    def __post_init__(self) -> None:
        self._check_at_least(1, "length", "epoch_size", "held_out")

    @abstractmethod
    def example(self, random: Random, *, hardest: bool = False) -> tuple[str, str]:
        """Source and target, as text; `hardest` for the largest length and nesting."""

    @property
    def source_vocabulary(self) -> Vocabulary:
        return _DIGITS

    @property
    def target_vocabulary(self) -> Vocabulary:
        return self.source_vocabulary

    def train(self, seed: int, epoch: int) -> list[Pair]:
        return self._draw(self.epoch_size, _TRAIN, seed, epoch)

    @cached_property
    def validation(self) -> list[Pair]:
        return self._draw(self.held_out, _VALIDATION)

    @cached_property
    def test(self) -> list[Pair]:
        return self._draw(self.held_out, _TEST)

    @cached_property
    def test_sets(self) -> Mapping[str, list[Pair]]:
        """`test`, of mixed sizes, and `hardest`."""
        return {"test": self.test, "hardest": self._draw(self.held_out, _TEST, hardest=True)}

    def _draw(self, count: int, part: int, *stream: int, hardest: bool = False) -> list[Pair]:
        random = Random(repr((part, hardest, *stream)))
        drawn = (self.example(random, hardest=hardest) for _ in range(_TRIES * count))
        mine = (texts for texts in drawn if crc32(texts[0].encode()) % 3 == part)
        pairs = [self._encode(*texts) for texts in islice(mine, count)]
        if len(pairs) < count:
            raise ValueError(
                f"there are too few sources of length {self.length}: take a larger one"
            )
        return pairs

    def _encode(self, source: str, target: str) -> Pair:
        return self.source_vocabulary.read(source), self.target_vocabulary.read(target)


@dataclass(frozen=True)
class ProgramTask(LearningToExecute):
    """Programs of some operations, and what they print.

    Parameters
    ----------
    nesting : int
        Operations in a program, at most; each takes the one before as an operand.
    """

    vocabulary_kind: ClassVar[type[Characters]] = Characters
    operations: ClassVar[Sequence[programs.Operation]]

    nesting: int = field(default=2, metadata={"help": "operations in a program, at most"})

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_at_least(1, "nesting")
        if self.nesting > len(programs.VARIABLES):
            raise ValueError(
                f"nesting must be at most {len(programs.VARIABLES)}, the number of variables; "
                f"got {self.nesting}"
            )

    @property
    def source_vocabulary(self) -> Characters:
        return _CHARACTERS

    def example(self, random: Random, *, hardest: bool = False) -> tuple[str, str]:
        length, nesting = self.length, self.nesting
        if not hardest:
            length, nesting = random.randint(1, length), random.randint(1, nesting)
        return programs.write_program(random, self.operations, length, nesting)


class LteProgram(ProgramTask):
    """What a program prints that adds, subtracts, multiplies, assigns, loops and chooses.

    Examples
    --------
    >>> source, target = LteProgram().test[0]
    >>> print(LteProgram().source_vocabulary.write(source))
    g=10
    print((g-7))
    >>> LteProgram().target_vocabulary.write(target)
    '3'
    """

    name: ClassVar[str] = "lte-program"
    operations = (
        programs.add_or_subtract,
        programs.multiply,
        programs.use_variable,
        programs.loop,
        programs.choose,
    )


class LteControl(ProgramTask):
    """What a program prints that loops and chooses.

    Examples
    --------
    >>> print(LteControl(length=2).example(Random(2), hardest=True)[0])
    f=56
    for x in range(7):f-=82
    print((65 if f>4 else 35))
    """

    name: ClassVar[str] = "lte-control"
    operations = (programs.loop, programs.choose)


class LteAddition(ProgramTask):
    """What a program prints that adds.

    Examples
    --------
    >>> LteAddition().example(Random(3), hardest=True)
    ('print((93999+(72193+30715)))', '196907')
    """

    name: ClassVar[str] = "lte-addition"
    operations = (programs.add,)
