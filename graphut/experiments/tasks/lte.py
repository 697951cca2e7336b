"""Learning to Execute: read a program or digits, character by character, and write the output."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from random import Random
from string import digits
from typing import ClassVar, NamedTuple
from zlib import crc32

from graphut.experiments.tasks import presets
from graphut.experiments.tasks.base import PARTS, DrawnTask, Pair, PairTask
from graphut.experiments.tasks.vocabulary import Characters, Vocabulary, character_of, symbol_of
from graphut.models.checked_config import option
from graphut.sentences import BOS, EOS

_DIGITS = Vocabulary(digits)
VARIABLES = "abcdefghij"
_LETTERS = sorted({*VARIABLES, *"printifelseforxrange"})
_OTHERS = [*map(symbol_of, "+-*=<>(): \n"), *_LETTERS]
_TRIES = 100  # examples drawn for one that is wanted, at most
_SIZE = presets.model_size(128, 512, 6)
_PROGRAM = presets.PAIRS | presets.DEEP | _SIZE | {"batch_size": 32, "epochs": 30}
_PROGRAM_PRESETS = presets.with_baselines(_PROGRAM, presets.WIDE_LAYERS)
_MEMORY_PRESETS = presets.with_baselines(presets.COPY | {"max_offset": 0}, presets.NARROW_LAYERS)
_SIGNS = {1: "+", -1: "-"}


class PlacedDigits(Characters):
    """Characters, but a digit also tells its place in its number: 0 for units, 1 for tens.

    A digit whose place the vocabulary does not know is a character as any other.

    Examples
    --------
    >>> placed = PlacedDigits(["+", "40", "41", "70"])
    >>> placed.readable(placed.read("44+7"))
    ['41', '40', '+', '70']
    >>> placed.write(placed.read("44+7"))
    '44+7'
    """

    def read(self, text: str) -> list[int]:
        """Return the token ids of the characters of a text."""
        symbols: list[str] = []
        for part in re.findall("[0-9]+|[^0-9]", text):
            placed = [f"{digit}{place}" for place, digit in enumerate(part[::-1])][::-1]
            symbols += placed if placed[0] in self else map(symbol_of, part)
        return self.encode(symbols)

    def write(self, tokens: Sequence[int]) -> str:
        """Return the text of token ids, without the places."""
        symbols = self.decode([token for token in tokens if token not in (BOS, EOS)])
        return "".join(s[0] if s[0] in digits else character_of(s) for s in symbols)


_CHARACTERS = Characters([*digits, *_OTHERS])


class Expression(NamedTuple):
    """Python, and its value."""

    text: str
    value: int


class Draft:
    """A program that is being written: `lines` so far, and `nested`, an expression still to use.

    Operands are drawn evenly between 1 and `10**length`, factors and numbers of rounds between 1
    and `4 * length`.
    """

    def __init__(self, random: Random, length: int) -> None:
        self.random = random
        self.length = length
        self.lines: list[str] = []
        self.nested: Expression | None = None
        self._unused = random.sample(VARIABLES, len(VARIABLES))

    def operands(self, count: int) -> list[Expression]:
        """Draw new numbers, one of which is replaced by `nested` if there is one."""
        numbers = [self.random.randint(1, 10**self.length) for _ in range(count)]
        chosen = [Expression(str(number), number) for number in numbers]
        if self.nested is not None:
            chosen[self.random.randrange(count)] = self.nested
        return chosen

    def small(self) -> int:
        """Draw a factor, or a number of rounds."""
        return self.random.randint(1, 4 * self.length)

    def sign(self) -> int:
        """Draw 1 or -1."""
        return self.random.choice((1, -1))

    def assign(self, value: Expression) -> str:
        """Add a line that assigns the value to a new variable, and return the variable's name."""
        name = self._unused.pop()
        self.lines.append(f"{name}={value.text}")
        return name


Operation = Callable[[Draft], Expression]


def add(draft: Draft) -> Expression:
    """Write `(a+b)`."""
    a, b = draft.operands(2)
    return Expression(f"({a.text}+{b.text})", a.value + b.value)


def add_or_subtract(draft: Draft) -> Expression:
    """Write `(a+b)` or `(a-b)`."""
    a, b = draft.operands(2)
    sign = draft.sign()
    return Expression(f"({a.text}{_SIGNS[sign]}{b.text})", a.value + sign * b.value)


def multiply(draft: Draft) -> Expression:
    """Write `(a*3)` or `(3*a)`."""
    [a] = draft.operands(1)
    factor = draft.small()
    texts = draft.random.sample([a.text, str(factor)], 2)
    return Expression(f"({texts[0]}*{texts[1]})", a.value * factor)


def use_variable(draft: Draft) -> Expression:
    """Write `v=a`, then `(v+b)` or `(v-b)`."""
    a, b = draft.operands(2)
    sign = draft.sign()
    name = draft.assign(a)
    return Expression(f"({name}{_SIGNS[sign]}{b.text})", a.value + sign * b.value)


def loop(draft: Draft) -> Expression:
    """Write `v=a`, then `for x in range(3):v+=b` or `v-=b`."""
    a, b = draft.operands(2)
    rounds, sign = draft.small(), draft.sign()
    name = draft.assign(a)
    draft.lines.append(f"for x in range({rounds}):{name}{_SIGNS[sign]}={b.text}")
    return Expression(name, a.value + sign * rounds * b.value)


def choose(draft: Draft) -> Expression:
    """Write `(a if c<d else b)`, or with `>`."""
    a, b, c, d = draft.operands(4)
    less = draft.sign() == 1
    holds = c.value < d.value if less else c.value > d.value
    text = f"({a.text} if {c.text}{'<' if less else '>'}{d.text} else {b.text})"
    return Expression(text, a.value if holds else b.value)


def write_program(
    random: Random, operations: Sequence[Operation], length: int, nesting: int
) -> tuple[str, str]:
    """Draw a program, and return it with what it prints (arXiv 1410.4615, section 3).

    Each of its `nesting` operations takes the one before as an operand; for `length` see `Draft`.
    The language and the distribution are those of the paper and of its code, where a line with a
    variable ends in a semicolon too, and one operation does nothing.

    Examples
    --------
    >>> program, output = write_program(Random(9), [loop, choose], length=2, nesting=2)
    >>> print(program)
    j=91
    for x in range(3):j+=(71 if 90>6 else 79)
    print(j)
    >>> output
    '304'
    """
    draft = Draft(random, length)
    for _ in range(nesting):
        draft.nested = random.choice(operations)(draft)
    if draft.nested is None:
        raise ValueError(f"nesting must be at least 1, got {nesting}")
    return "\n".join([*draft.lines, f"print({draft.nested.text})"]), str(draft.nested.value)


@dataclass(frozen=True)
class LearningToExecute(DrawnTask, PairTask):
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

    length: int = option(5, "the largest length: numbers are up to 10 to this power", least=1)
    epoch_size: int = option(10_000, "training sequences in an epoch", least=1)
    held_out: int = option(1000, "sequences in the validation set, and in each test set", least=1)

    @abstractmethod
    def example(self, random: Random, *, hardest: bool = False) -> tuple[str, str]:
        """Draw source and target, as text; `hardest` for the largest length and nesting."""

    @cached_property
    def test_sets(self) -> Mapping[str, list[Pair]]:
        """`test`, of mixed sizes, and `hardest`."""
        return {"test": self.test, "hardest": self.draw(self.held_out, "test", hardest=True)}

    def draw(self, count: int, part: str, *stream: int, hardest: bool = False) -> list[Pair]:
        """Draw pairs whose sources belong to a part."""
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

    operations: ClassVar[Sequence[Operation]]

    nesting: int = option(2, "operations in a program, at most", least=1)
    digit_places: bool = option(
        False,
        "give a digit of a program another symbol at each place of its number, counted from the "
        "right; with --no-share-embeddings",
    )

    @property
    def vocabulary_kind(self) -> type[Characters]:
        """The class of its vocabularies."""
        return PlacedDigits if self.digit_places else Characters

    @property
    def source_vocabulary(self) -> Characters:
        """The characters of programs."""
        if not self.digit_places:
            return _CHARACTERS
        places = range(self.length + 1)
        placed = [f"{digit}{place}" for place in places for digit in digits]
        return PlacedDigits([*placed, *_OTHERS])

    @property
    def target_vocabulary(self) -> Characters:
        """The characters of programs; digits of outputs do not tell their places."""
        return self.vocabulary_kind(_CHARACTERS.symbols)

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.nesting > len(VARIABLES):
            raise ValueError(
                f"nesting must be at most {len(VARIABLES)}, the number of variables; "
                f"got {self.nesting}"
            )

    def example(self, random: Random, *, hardest: bool = False) -> tuple[str, str]:
        """Draw a program and what it prints."""
        length, nesting = self.length, self.nesting
        if not hardest:
            length, nesting = random.randint(1, length), random.randint(1, nesting)
        return write_program(random, self.operations, length, nesting)


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
    operations = (add_or_subtract, multiply, use_variable, loop, choose)


class LteControl(ProgramTask):
    """The output of a program that loops and chooses."""

    name = "lte-control"
    presets = _PROGRAM_PRESETS
    operations = (loop, choose)


class LteAddition(ProgramTask):
    """The output of a program that adds."""

    name = "lte-addition"
    presets = _PROGRAM_PRESETS
    operations = (add,)


@dataclass(frozen=True)
class MemoryTask(LearningToExecute):
    """Random digits, to be written down."""

    source_vocabulary: ClassVar[Vocabulary] = _DIGITS

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
    """Digits, written once."""

    name = "lte-copy"
    presets = _MEMORY_PRESETS
    answer = staticmethod(str)


class LteDouble(MemoryTask):
    """Digits, written twice."""

    name = "lte-double"
    presets = _MEMORY_PRESETS
    answer = staticmethod(lambda source, /: source * 2)


class LteReverse(MemoryTask):
    """Digits, written backwards."""

    name = "lte-reverse"
    presets = _MEMORY_PRESETS
    answer = staticmethod(lambda source, /: source[::-1])
