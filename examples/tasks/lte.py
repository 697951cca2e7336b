"""Learning to Execute: write the output of a program, and copy or reverse digits.

graphut train examples/tasks/lte.py:program --out runs/program
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from string import digits
from typing import Any, ClassVar
from zlib import crc32

from graphut._tokens import BOS, EOS
from graphut.experiments.tasks import Pair, PairTask, Vocabulary, option, presets
from graphut.experiments.tasks.base import PARTS, DrawnTask
from graphut.vocabulary import Characters

VARIABLES = "abcdefghij"
_OTHERS = [*"+-*=<>(): \n", *sorted({*VARIABLES, *"printifelseforxrange"})]
_CHARACTERS, _DIGITS = Characters([*digits, *_OTHERS]), Vocabulary(digits)
_TRIES = 100  # examples drawn for each one needed, at most
_SIZE = presets.model_size(128, 512, 6)
_PROGRAM = presets.PAIRS | presets.DEEP | _SIZE | {"batch_size": 32, "epochs": 30}
_PROGRAM_PRESETS = presets.with_baselines(_PROGRAM, presets.model_size(64, 256, 4))
_MEMORY_PRESETS = presets.with_baselines(presets.COPY | {"max_offset": 0}, presets.NARROW_LAYERS)


class PlacedDigits(Characters):
    """A vocabulary of characters; the symbol "41" is the digit 4 at place 1, that of tens.

    If it lacks the symbol of a number's first digit, the number is read as plain digits.
    """

    def read(self, text: str) -> list[int]:
        symbols: list[str] = []
        for part in re.findall("[0-9]+|[^0-9]", text):
            placed = [f"{digit}{place}" for place, digit in enumerate(part[::-1])][::-1]
            symbols += placed if placed[0] in self else part
        return self.encode(symbols)

    def write(self, tokens: Sequence[int]) -> str:
        symbols = self.decode([token for token in tokens if token not in (BOS, EOS)])
        return "".join(s[0] for s in symbols)


class Draft:
    """A random program under construction: its lines, and the expression of its last operation."""

    def __init__(self, random: Random, length: int) -> None:
        self.random, self.length = random, length
        self.lines: list[str] = []
        self.expression: str | None = None
        self._unused = random.sample(VARIABLES, len(VARIABLES))

    def operands(self, count: int) -> list[str]:
        """Draw `count` numbers up to `10**length`; replace one by the last expression, if any."""
        chosen = [str(self.random.randint(1, 10**self.length)) for _ in range(count)]
        if self.expression is not None:
            chosen[self.random.randrange(count)] = self.expression
        return chosen

    def assign(self, value: str) -> str:
        """Add a line that assigns a value to a new variable, and return the variable's name."""
        name = self._unused.pop()
        self.lines.append(f"{name}={value}")
        return name

    # Operations: each may add lines, and returns the expression of its result.

    def add(self) -> str:
        a, b = self.operands(2)
        return f"({a}+{b})"

    def add_or_subtract(self) -> str:
        a, b = self.operands(2)
        return f"({a}{self.random.choice('+-')}{b})"

    def multiply(self) -> str:
        [a] = self.operands(1)
        b = str(self.random.randint(1, 4 * self.length))
        return "({}*{})".format(*self.random.sample([a, b], 2))

    def use_variable(self) -> str:
        a, b = self.operands(2)
        return f"({self.assign(a)}{self.random.choice('+-')}{b})"

    def loop(self) -> str:
        a, b = self.operands(2)
        rounds, sign = self.random.randint(1, 4 * self.length), self.random.choice("+-")
        name = self.assign(a)
        self.lines.append(f"for x in range({rounds}):{name}{sign}={b}")
        return name

    def choose(self) -> str:
        a, b, c, d = self.operands(4)
        return f"({a} if {c}{self.random.choice('<>')}{d} else {b})"


Operations = Sequence[Callable[[Draft], str]]
_CONTROL: Operations = (Draft.loop, Draft.choose)


def write_program(random: Random, operations: Operations, length: int, nesting: int) -> str:
    """Draw a program that prints a number (arXiv 1410.4615, section 3).

    Each of the `nesting` operations has the previous expression as an operand. The language and the
    distribution follow the paper and its code, without semicolons and the operation that does
    nothing.
    """
    draft = Draft(random, length)
    for _ in range(nesting):
        draft.expression = random.choice(operations)(draft)
    return "\n".join([*draft.lines, f"print({draft.expression})"])


def run_program(program: str) -> str:
    """Return the output of a program from `write_program`."""
    *lines, last = program.split("\n")
    exec("\n".join(lines), names := dict[str, Any]())
    return str(eval(last.removeprefix("print"), names))


@dataclass(frozen=True)
class LearningToExecute(DrawnTask, PairTask):
    """A base class of tasks on random programs or digits: the target is computed from the source.

    The tasks and sizes of arXiv 1807.03819, section 3.5, with the programs and the mix strategy of
    arXiv 1410.4615: the length and the nesting of each example are drawn uniformly from 1 to the
    maximum. Each epoch has new examples. The test set `hardest` has only the largest sizes. A hash
    of the source assigns it to training, validation or test, as in the code of 1410.4615.
    """

    length: int = option(5, "maximum length: numbers are up to 10 to this power", least=1)
    epoch_size: int = option(10_000, "training sequences in an epoch", least=1)
    held_out: int = option(1000, "sequences in the validation set, and in each test set", least=1)

    @abstractmethod
    def source(self, random: Random, *, hardest: bool = False) -> str:
        """Draw a source text; if `hardest`, of the maximum length and nesting."""

    @property
    def test_sets(self) -> tuple[str, ...]:
        return ("test", "hardest")

    def draw(self, count: int, part: str, *stream: int) -> list[Pair]:
        hardest = part == "hardest"
        number = PARTS.index("test" if hardest else part)
        random = Random(repr((number, hardest, *stream)))
        drawn = (self.source(random, hardest=hardest) for _ in range(_TRIES * count))
        of_part = (source for source in drawn if crc32(source.encode()) % 3 == number)
        read_source, read_target = self.source_vocabulary.read, self.target_vocabulary.read
        pairs = [(read_source(s), read_target(self.answer(s))) for s in islice(of_part, count)]
        if len(pairs) < count:
            raise ValueError(f"there are too few sources of length {self.length}: choose a larger")
        return pairs


@dataclass(frozen=True)
class ProgramTask(LearningToExecute):
    """A base class of tasks whose sources are programs, and whose targets are their outputs."""

    presets = _PROGRAM_PRESETS
    operations: ClassVar[Operations]
    answer = staticmethod(run_program)

    nesting: int = option(2, "maximum number of operations in a program", least=1)
    digit_places: bool = option(
        False, "use symbols for digits at each place of a number; needs --no-share-embeddings"
    )

    @property
    def source_vocabulary(self) -> Characters:
        if not self.digit_places:
            return _CHARACTERS
        placed = [f"{d}{place}" for place in range(self.length + 1) for d in digits]
        return PlacedDigits([*placed, *_OTHERS])

    @property
    def target_vocabulary(self) -> Characters:
        return (PlacedDigits if self.digit_places else Characters)(_CHARACTERS.symbols)

    def _check_values(self) -> None:
        self._check("nesting", self.nesting <= len(VARIABLES), f"at most {len(VARIABLES)}")

    def source(self, random: Random, *, hardest: bool = False) -> str:
        length, nesting = self.length, self.nesting
        if not hardest:
            length, nesting = random.randint(1, length), random.randint(1, nesting)
        return write_program(random, self.operations, length, nesting)


class Program(ProgramTask):
    """Write the output of a program with arithmetic, variables, loops and conditions."""

    name = "program"
    operations = (Draft.add_or_subtract, Draft.multiply, Draft.use_variable, *_CONTROL)


class Control(ProgramTask):
    """Write the output of a program with loops and conditions."""

    name = "control"
    operations = _CONTROL


class Addition(ProgramTask):
    """Write the output of a program that adds numbers."""

    name = "addition"
    operations = (Draft.add,)


@dataclass(frozen=True)
class MemoryTask(LearningToExecute):
    """A base class of tasks whose sources are random digits."""

    presets = _MEMORY_PRESETS
    source_vocabulary: ClassVar[Vocabulary] = _DIGITS

    length: int = option(55, "maximum length of a source, in digits", least=1)

    def source(self, random: Random, *, hardest: bool = False) -> str:
        length = self.length if hardest else random.randint(1, self.length)
        return "".join(random.choices(digits, k=length))


class Copy(MemoryTask):
    """Copy a sequence of digits."""

    name, answer = "copy", staticmethod(str)


class Double(MemoryTask):
    """Write a sequence of digits twice."""

    name, answer = "double", staticmethod(lambda source: source * 2)


class Reverse(MemoryTask):
    """Reverse a sequence of digits."""

    name, answer = "reverse", staticmethod(lambda source: source[::-1])
