"""Random programs and their outputs: the language of Learning to Execute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

VARIABLES = "abcdefghij"


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


_SIGNS = {1: "+", -1: "-"}


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
