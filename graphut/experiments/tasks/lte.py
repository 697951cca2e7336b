"""Learning to Execute: read a program or digits, character by character, and write the output."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from random import Random
from string import digits
from typing import ClassVar
from zlib import crc32

from graphut.experiments.tasks import lte_programs, presets
from graphut.experiments.tasks.base import PARTS, Pair, PairTask, option
from graphut.experiments.tasks.vocabulary import Characters, Vocabulary, symbol_of

_DIGITS = Vocabulary(digits)
_LETTERS = {*lte_programs.VARIABLES, *"printifelseforxrange"}
_CHARACTERS = Characters(map(symbol_of, f"{digits}+-*=<>(): \n" + "".join(sorted(_LETTERS))))
_TRIES = 100  # examples drawn for one that is wanted, at most
_SIZE = presets.model_size(128, 512, 6)
_PROGRAM = presets.PAIRS | presets.DEEP | _SIZE | {"batch_size": 32, "epochs": 30}
_PROGRAM_PRESETS = presets.with_baselines(_PROGRAM, presets.WIDE_LAYERS)
_MEMORY_PRESETS = presets.with_baselines(presets.COPY | {"max_offset": 0}, presets.NARROW_LAYERS)


@dataclass(frozen=True)
class LearningToExecute(PairTask):
    """Random sources, and the outputs that are computed from them, symbol by symbol.

    Tasks and sizes of Universal Transformers (arXiv 1807.03819, section 3.5, tables 5 and 6);
    programs and the mix strategy of Learning to Execute (arXiv 1410.4615):
    each example has a length and a nesting of its own, even between 1 and the largest. No
    curriculum, and every epoch has new examples. `test` is drawn by the mix strategy too;
    `hardest` has the largest length and nesting only, as the test set of 1410.4615.

    As in the code of 1410.4615, a hash of the source says whether an example may be trained
    on, validated or tested, so that no part ever sees a source of another. If too few sources of
    the length belong to a part, its pairs cannot be drawn.
    """

    source_vocabulary: ClassVar[Vocabulary] = _DIGITS

    length: int = option(5, "the largest length: numbers are up to 10 to this power", least=1)
    epoch_size: int = option(10_000, "training sequences in an epoch", least=1)
    held_out: int = option(1000, "sequences in the validation set, and in each test set", least=1)

    @abstractmethod
    def example(self, random: Random, *, hardest: bool = False) -> tuple[str, str]:
        """Draw source and target, as text; `hardest` for the largest length and nesting."""

    def train(self, seed: int, epoch: int) -> list[Pair]:
        """Draw the training pairs of an epoch."""
        return self._draw(self.epoch_size, "train", seed, epoch)

    def load(self, part: str) -> list[Pair]:
        """Draw the pairs of "validation" or "test"."""
        return self._draw(self.held_out, part)

    @cached_property
    def test_sets(self) -> Mapping[str, list[Pair]]:
        """`test`, of mixed sizes, and `hardest`."""
        return {"test": self.test, "hardest": self._draw(self.held_out, "test", hardest=True)}

    def _draw(self, count: int, part: str, *stream: int, hardest: bool = False) -> list[Pair]:
        number = PARTS.index(part)
        random = Random(repr((number, hardest, *stream)))
        drawn = (self.example(random, hardest=hardest) for _ in range(_TRIES * count))
        mine = (texts for texts in drawn if crc32(texts[0].encode()) % 3 == number)
        read_source, read_target = self.source_vocabulary.read, self.target_vocabulary.read
        pairs = [(read_source(s), read_target(t)) for s, t in islice(mine, count)]
        if len(pairs) < count:
            raise ValueError(
                f"there are too few sources of length {self.length}: take a larger one"
            )
        return pairs


@dataclass(frozen=True)
class ProgramTask(LearningToExecute):
    """Programs of some operations, each with the one before as an operand, and their outputs."""

    vocabulary_kind = Characters
    source_vocabulary = _CHARACTERS
    operations: ClassVar[Sequence[lte_programs.Operation]]

    nesting: int = option(2, "operations in a program, at most", least=1)

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.nesting > len(lte_programs.VARIABLES):
            raise ValueError(
                f"nesting must be at most {len(lte_programs.VARIABLES)}, the number of variables; "
                f"got {self.nesting}"
            )

    def example(self, random: Random, *, hardest: bool = False) -> tuple[str, str]:
        """Draw a program and what it prints."""
        length, nesting = self.length, self.nesting
        if not hardest:
            length, nesting = random.randint(1, length), random.randint(1, nesting)
        return lte_programs.write_program(random, self.operations, length, nesting)


class LteProgram(ProgramTask):
    """The output of a program that adds, subtracts, multiplies, assigns, loops and chooses.

    Examples
    --------
    >>> source, target = LteProgram().test[0]
    >>> print(LteProgram().source_vocabulary.write(source))
    g=10
    print((g-7))
    >>> LteProgram().target_vocabulary.write(target)
    '3'
    """

    name = "lte-program"
    presets = _PROGRAM_PRESETS
    operations = (
        lte_programs.add_or_subtract,
        lte_programs.multiply,
        lte_programs.use_variable,
        lte_programs.loop,
        lte_programs.choose,
    )


class LteControl(ProgramTask):
    """The output of a program that loops and chooses.

    Examples
    --------
    >>> print(LteControl(length=2).example(Random(2), hardest=True)[0])
    f=56
    for x in range(7):f-=82
    print((65 if f>4 else 35))
    """

    name = "lte-control"
    presets = _PROGRAM_PRESETS
    operations = (lte_programs.loop, lte_programs.choose)


class LteAddition(ProgramTask):
    """The output of a program that adds.

    Examples
    --------
    >>> LteAddition().example(Random(3), hardest=True)
    ('print((93999+(72193+30715)))', '196907')
    """

    name = "lte-addition"
    presets = _PROGRAM_PRESETS
    operations = (lte_programs.add,)


@dataclass(frozen=True)
class MemoryTask(LearningToExecute):
    """Random digits, to be written down."""

    length: int = option(55, "digits in the longest source", least=1)

    @staticmethod
    @abstractmethod
    def answer(source: str, /) -> str:
        """Return the target of a source."""

    def example(self, random: Random, *, hardest: bool = False) -> tuple[str, str]:
        """Draw digits and the answer to them."""
        length = self.length if hardest else random.randint(1, self.length)
        source = "".join(random.choices(digits, k=length))
        return source, self.answer(source)


class LteCopy(MemoryTask):
    """Digits, written once.

    Examples
    --------
    >>> LteCopy().answer("314")
    '314'
    """

    name = "lte-copy"
    presets = _MEMORY_PRESETS
    answer = staticmethod(str)


class LteDouble(MemoryTask):
    """Digits, written twice.

    Examples
    --------
    >>> LteDouble().answer("314")
    '314314'
    """

    name = "lte-double"
    presets = _MEMORY_PRESETS
    answer = staticmethod(lambda source, /: source * 2)


class LteReverse(MemoryTask):
    """Digits, written backwards.

    Examples
    --------
    >>> LteReverse().answer("314")
    '413'
    """

    name = "lte-reverse"
    presets = _MEMORY_PRESETS
    answer = staticmethod(lambda source, /: source[::-1])
