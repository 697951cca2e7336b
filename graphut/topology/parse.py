"""Spec strings such as `window:8|causal`, read back into topologies."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import NoReturn

from graphut.topology.base import Topology, registry

_TOKEN = re.compile(r"\s*([|&():,]|[^\s|&():,]+)")


def parse(spec: str | Topology) -> Topology:
    """The topology that a spec string describes.

    A name with its integers, as in `window:8`; `|` for a union and `&` for an intersection,
    which binds tighter; parentheses. `parse(t.spec()) == t` for every topology `t`.

    Parameters
    ----------
    spec : str or Topology
        A topology is returned as it is.

    Raises
    ------
    TypeError
        If `spec` is neither.
    ValueError
        If the string cannot be read; a caret shows where.

    Examples
    --------
    >>> parse("window:8 & causal")
    Intersection(left=Window(radius=8), right=Causal())
    """
    if isinstance(spec, Topology):
        return spec
    if not isinstance(spec, str):
        raise TypeError(f"a topology is read from a string such as 'window:8', got {spec!r}")
    return _Parser(spec).whole()


class _Parser:
    """Recursive descent over the tokens of one spec."""

    def __init__(self, spec: str) -> None:
        self.spec = spec
        self.tokens = [(match[1], match.start(1)) for match in _TOKEN.finditer(spec)]
        self.tokens.append(("", len(spec.rstrip())))
        self.index = 0

    def whole(self) -> Topology:
        topology = self.union()
        if self.next:
            self.fail(f"expected '|', '&' or the end, got {self.next!r}")
        return topology

    def union(self) -> Topology:
        topology = self.intersection()
        while self.took("|"):
            topology = topology | self.intersection()
        return topology

    def intersection(self) -> Topology:
        topology = self.part()
        while self.took("&"):
            topology = topology & self.part()
        return topology

    def part(self) -> Topology:
        if not self.took("("):
            return self.named()
        topology = self.union()
        if not self.took(")"):
            self.fail(f"expected ')', got {self.shown}")
        return topology

    def named(self) -> Topology:
        if self.next not in registry:
            what = (
                f"unknown topology {self.next!r}" if self.is_word else self.expected("a topology")
            )
            self.fail(f"{what}; known are {', '.join(sorted(registry))}")
        start = self.index
        cls = registry[self.take()]
        values = self.integers() if self.took(":") else []
        self.check_count(cls, len(values), start)
        try:
            return cls(*values)
        except (TypeError, ValueError) as error:
            self.fail(str(error), start)

    def integers(self) -> list[int]:
        values = [self.integer()]
        while self.took(","):
            values.append(self.integer())
        return values

    def integer(self) -> int:
        if not re.fullmatch("-?[0-9]{1,18}", self.next):
            self.fail(self.expected("an integer"))
        return int(self.take())

    def check_count(self, cls: type[Topology], given: int, start: int) -> None:
        names = [field.name for field in fields(cls)]
        needed = sum(field.default is MISSING for field in fields(cls))
        if not needed <= given <= len(names):
            takes = f"the integers {', '.join(names)}" if names else "no integers"
            self.fail(f"{cls.name} takes {takes}; got {given}", start)

    @property
    def next(self) -> str:
        return self.tokens[self.index][0]

    @property
    def is_word(self) -> bool:
        return bool(self.next) and self.next not in "|&():,"

    def expected(self, what: str) -> str:
        return f"expected {what}, got {self.shown}"

    @property
    def shown(self) -> str:
        return repr(self.next) if self.next else "the end"

    def take(self) -> str:
        self.index += 1
        return self.tokens[self.index - 1][0]

    def took(self, token: str) -> bool:
        if self.next != token:
            return False
        self.index += 1
        return True

    def fail(self, message: str, index: int | None = None) -> NoReturn:
        place = self.tokens[self.index if index is None else index][1]
        raise ValueError(f"{message}\n    {self.spec}\n    {' ' * place}^")
