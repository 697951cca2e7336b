"""Learning to Execute: write the output of a program, and copy or reverse digits."""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from random import Random
from string import digits
from typing import Any, ClassVar
from zlib import crc32

from graphut._tokens import BOS, EOS
from graphut.experiments.tasks import presets
from graphut.experiments.tasks.base import PARTS, DrawnTask, LazySets, Pair, PairTask
from graphut.experiments.tasks.vocabulary import Characters, Vocabulary, character_of, symbol_of
from graphut.models.checked_config import option

_DIGITS = Vocabulary(digits)
VARIABLES = "abcdefghij"
_LETTERS = sorted({*VARIABLES, *"printifelseforxrange"})
_OTHERS = [*map(symbol_of, "+-*=<>(): \n"), *_LETTERS]
_TRIES = 100  # examples drawn for each one needed, at most
_SIZE = presets.model_size(128, 512, 6)
_PROGRAM = presets.PAIRS | presets.DEEP | _SIZE | {"batch_size": 32, "epochs": 30}
_PROGRAM_PRESETS = presets.with_baselines(_PROGRAM, presets.WIDE_LAYERS)
_MEMORY_PRESETS = presets.with_baselines(presets.COPY | {"max_offset": 0}, presets.NARROW_LAYERS)


class PlacedDigits(Characters):
    """A vocabulary of characters; the symbol of a digit includes its place in the number.

    The symbol "41" is the digit 4 at place 1. Place 0 is for units, place 1 for tens, and so on. If
    the vocabulary lacks the symbol of a number's first digit, the number is read as plain digits.

    Examples
    --------
    >>> placed = PlacedDigits(["+", "40", "41", "70"])
    >>> placed.readable(placed.read("44+7"))
    ['41', '40', '+', '70']
    >>> placed.write(placed.read("44+7"))
    '44+7'
    """

    def read(self, text: str) -> list[int]:
        symbols: list[str] = []
        for part in re.findall("[0-9]+|[^0-9]", text):
            placed = [f"{digit}{place}" for place, digit in enumerate(part[::-1])][::-1]
            symbols += placed if placed[0] in self else map(symbol_of, part)
        return self.encode(symbols)

    def write(self, tokens: Sequence[int]) -> str:
        symbols = self.decode([token for token in tokens if token not in (BOS, EOS)])
        return "".join(s[0] if s[0] in digits else character_of(s) for s in symbols)


_CHARACTERS = Characters([*digits, *_OTHERS])


class Draft:
    """A random program under construction: its lines, and the expression of its last operation."""

    def __init__(self, random: Random, length: int) -> None:
        self.random = random
        self.length = length
        self.lines: list[str] = []
        self.expression: str | None = None
        self._unused = random.sample(VARIABLES, len(VARIABLES))

    def operands(self, count: int) -> list[str]:
        """Draw `count` numbers up to `10**length`; replace one by the last expression, if any."""
        chosen = [str(self.random.randint(1, 10**self.length)) for _ in range(count)]
        if self.expression is not None:
            chosen[self.random.randrange(count)] = self.expression
        return chosen

    def small(self) -> int:
        """Draw a number from 1 to `4 * length`, for a factor or a number of iterations."""
        return self.random.randint(1, 4 * self.length)

    def assign(self, value: str) -> str:
        """Add a line that assigns a value to a new variable, and return the variable's name."""
        name = self._unused.pop()
        self.lines.append(f"{name}={value}")
        return name


Operation = Callable[[Draft], str]


def add(draft: Draft) -> str:
    """Return `(a+b)`: two random numbers, or the draft's expression so far and a random number."""
    a, b = draft.operands(2)
    return f"({a}+{b})"


def add_or_subtract(draft: Draft) -> str:
    """Return `(a+b)` or `(a-b)`: two random numbers, or the draft's expression and one number."""
    a, b = draft.operands(2)
    return f"({a}{draft.random.choice('+-')}{b})"


def multiply(draft: Draft) -> str:
    """Return `(a*3)` or `(3*a)`: the draft's expression or a number, times a random factor."""
    [a] = draft.operands(1)
    return "({}*{})".format(*draft.random.sample([a, str(draft.small())], 2))


def use_variable(draft: Draft) -> str:
    """Add the line `v=a`, with a new variable `v`; return `(v+b)` or `(v-b)` for two operands."""
    a, b = draft.operands(2)
    return f"({draft.assign(a)}{draft.random.choice('+-')}{b})"


def loop(draft: Draft) -> str:
    """Add `v=a` and a loop of random length, `v+=b` or `v-=b`, for two operands; return `v`."""
    a, b = draft.operands(2)
    rounds, sign = draft.small(), draft.random.choice("+-")
    name = draft.assign(a)
    draft.lines.append(f"for x in range({rounds}):{name}{sign}={b}")
    return name


def choose(draft: Draft) -> str:
    """Return `(a if c<d else b)` or `(a if c>d else b)`, with four operands of the draft."""
    a, b, c, d = draft.operands(4)
    return f"({a} if {c}{draft.random.choice('<>')}{d} else {b})"


def write_program(
    random: Random, operations: Sequence[Operation], length: int, nesting: int
) -> str:
    """Draw a program that prints a number (arXiv 1410.4615, section 3).

    Each of the `nesting` operations has the previous expression as an operand. Other operands are
    numbers from 1 to `10**length`. The language and the distribution follow the paper and its code,
    without the semicolons there and without the operation that does nothing.

    Examples
    --------
    >>> program = write_program(Random(9), [loop, choose], length=2, nesting=2)
    >>> print(program)
    j=91
    for x in range(3):j+=(71 if 90>6 else 79)
    print(j)
    >>> run_program(program)
    '304'
    """
    draft = Draft(random, length)
    for _ in range(nesting):
        draft.expression = random.choice(operations)(draft)
    return "\n".join([*draft.lines, f"print({draft.expression})"])


def run_program(program: str) -> str:
    """Return the output of a program from `write_program`."""
    *lines, last = program.split("\n")
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)
    return str(eval(last.removeprefix("print"), names))


@dataclass(frozen=True)
class LearningToExecute(DrawnTask, PairTask):
    """A base class of tasks on random programs or digits: the target is computed from the source.

    The tasks and sizes of Universal Transformers (arXiv 1807.03819, section 3.5, tables 5 and 6),
    with the programs and the mix strategy of Learning to Execute (arXiv 1410.4615): the length and
    the nesting of each example are drawn uniformly from 1 to the maximum. Each epoch has new
    examples, and there is no curriculum. `test` also follows the mix strategy; `hardest` has only
    the maximum length and nesting, like the test set of 1410.4615.

    As in the code of 1410.4615, a hash of the source assigns an example to training, validation or
    test, so that no source occurs in two parts. Loading raises `ValueError` if there are too few
    sources of the given length.
    """

    length: int = option(5, "maximum length: numbers are up to 10 to this power", least=1)
    epoch_size: int = option(10_000, "training sequences in an epoch", least=1)
    held_out: int = option(1000, "sequences in the validation set, and in each test set", least=1)

    @abstractmethod
    def source(self, random: Random, *, hardest: bool = False) -> str:
        """Draw a random source text; if `hardest`, it has the maximum length and nesting."""

    @staticmethod
    @abstractmethod
    def answer(source: str, /) -> str:
        """Return the target text of a source text."""

    @cached_property
    def test_sets(self) -> Mapping[str, list[Pair]]:
        hardest = partial(self.draw, self.held_out, "test", hardest=True)
        return LazySets(self, {"hardest": hardest})

    def draw(self, count: int, part: str, *stream: int, hardest: bool = False) -> list[Pair]:
        """Draw `count` pairs for a part, such as "test"; if `hardest`, all of maximum length."""
        number = PARTS.index(part)
        random = Random(repr((number, hardest, *stream)))
        drawn = (self.source(random, hardest=hardest) for _ in range(_TRIES * count))
        of_part = (source for source in drawn if crc32(source.encode()) % 3 == number)
        read_source, read_target = self.source_vocabulary.read, self.target_vocabulary.read
        pairs = [(read_source(s), read_target(self.answer(s))) for s in islice(of_part, count)]
        if len(pairs) < count:
            raise ValueError(
                f"there are too few sources of length {self.length}: choose a larger length"
            )
        return pairs


@dataclass(frozen=True)
class ProgramTask(LearningToExecute):
    """A base class of tasks whose sources are programs, and whose targets are their outputs."""

    operations: ClassVar[Sequence[Operation]]
    answer = staticmethod(run_program)

    nesting: int = option(2, "maximum number of operations in a program", least=1)
    digit_places: bool = option(
        False,
        "use separate symbols for digits at different places of a number, counted from the right; "
        "needs --no-share-embeddings",
    )

    @property
    def vocabulary_kind(self) -> type[Characters]:
        return PlacedDigits if self.digit_places else Characters

    @property
    def source_vocabulary(self) -> Characters:
        """The characters of programs; with `digit_places`, a digit has a symbol for each place."""
        if not self.digit_places:
            return _CHARACTERS
        places = range(self.length + 1)
        placed = [f"{digit}{place}" for place in places for digit in digits]
        return PlacedDigits([*placed, *_OTHERS])

    @property
    def target_vocabulary(self) -> Characters:
        return self.vocabulary_kind(_CHARACTERS.symbols)

    def _check_values(self) -> None:
        most = len(VARIABLES)
        self._check("nesting", self.nesting <= most, f"at most {most}, the number of variables")

    def source(self, random: Random, *, hardest: bool = False) -> str:
        length, nesting = self.length, self.nesting
        if not hardest:
            length, nesting = random.randint(1, length), random.randint(1, nesting)
        return write_program(random, self.operations, length, nesting)


class LteProgram(ProgramTask):
    """Write the output of a program with arithmetic, variables, loops and conditions."""

    name = "lte-program"
    presets = _PROGRAM_PRESETS
    operations = (add_or_subtract, multiply, use_variable, loop, choose)


class LteControl(ProgramTask):
    """Write the output of a program with loops and conditions."""

    name = "lte-control"
    presets = _PROGRAM_PRESETS
    operations = (loop, choose)


class LteAddition(ProgramTask):
    """Write the output of a program that adds numbers."""

    name = "lte-addition"
    presets = _PROGRAM_PRESETS
    operations = (add,)


@dataclass(frozen=True)
class MemoryTask(LearningToExecute):
    """A base class of tasks whose sources are random digits."""

    source_vocabulary: ClassVar[Vocabulary] = _DIGITS

    length: int = option(55, "maximum length of a source, in digits", least=1)

    def source(self, random: Random, *, hardest: bool = False) -> str:
        length = self.length if hardest else random.randint(1, self.length)
        return "".join(random.choices(digits, k=length))


class LteCopy(MemoryTask):
    """Copy a sequence of digits."""

    name = "lte-copy"
    presets = _MEMORY_PRESETS
    answer = staticmethod(str)


class LteDouble(MemoryTask):
    """Write a sequence of digits twice."""

    name = "lte-double"
    presets = _MEMORY_PRESETS
    answer = staticmethod(lambda source, /: source * 2)


class LteReverse(MemoryTask):
    """Reverse a sequence of digits."""

    name = "lte-reverse"
    presets = _MEMORY_PRESETS
    answer = staticmethod(lambda source, /: source[::-1])
