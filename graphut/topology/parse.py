"""Parser of spec strings such as `window:8|causal`."""

import re
from collections import deque
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from inspect import Signature, signature
from typing import Any, NoReturn

from graphut.topology.base import Topology
from graphut.topology.registry import find, operators, registry

_TOKEN = re.compile(r"\s*([|&():,@]|[^\s|&():,@]+)")


def parse(spec: str | Topology) -> Topology:
    """Return the topology of a spec string; a topology is returned unchanged.

    A spec is a name with integers, as in `window:8` or `global:0,1`, and optionally a seed, as in
    `random:8@7`. The operators `|` (union) and `&` (intersection, higher precedence) combine specs,
    and parentheses group them. `parse(t.spec()) == t` for every topology `t`.

    Raises
    ------
    TypeError, ValueError
        If `spec` is not a string, or not a valid spec; a caret marks the position of the mistake.

    Examples
    --------
    >>> parse("window:8 & causal")
    Intersection(left=Window(radius=8), right=Causal())
    """
    if isinstance(spec, Topology):
        return spec
    if not isinstance(spec, str):
        raise TypeError(f"spec must be a string such as 'window:8', got {spec!r}")
    return _Parser(spec).parse()


class _Parser:
    """Recursive descent parser of one spec; unlike `ast`, its errors say what was expected."""

    def __init__(self, spec: str) -> None:
        self.spec = spec
        self.tokens = deque((match[1], match.start(1)) for match in _TOKEN.finditer(spec))
        self.tokens.append(("", len(spec.rstrip())))

    def parse(self) -> Topology:
        topology = self.combined()
        if self.tokens[0][0]:
            self.expected("'|', '&' or the end")
        return topology

    def combined(self, operator: str = "|") -> Topology:
        """Parse specs that are joined by `operator`; `&` binds more tightly than `|`."""
        operand = partial(self.combined, "&") if operator == "|" else self.operand
        topology = operand()
        while (position := self.take(operator)) is not None:
            topology = self.make(position, operators[operator], topology, operand())
        return topology

    def operand(self) -> Topology:
        if self.take("(") is None:
            return self.named()
        topology = self.combined()
        if self.take(")") is None:
            self.expected("')'")
        return topology

    def named(self) -> Topology:
        name, position = self.tokens[0]
        if self.take(*registry) is None:
            if name in {"", *"|&():,@"}:
                self.expected("a topology")
            near = get_close_matches(name, registry, n=1)
            meant = (
                f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(registry))}"
            )
            advice = "import the module of your own topology first (--import MODULE)"
            self.fail(f"unknown topology {name!r}: {meant}; {advice}", position)
        values = [] if self.take(":") is None else [self.integer()]
        while values and self.take(",") is not None:
            values.append(self.integer())
        seed = {} if self.take("@") is None else {"seed": self.integer()}
        parameters = signature(find(name)).parameters
        if seed and "seed" not in parameters:
            self.fail(f"{name} takes no seed", position)
        integers = [each for each in parameters.values() if each.name != "seed"]
        try:
            Signature(integers).bind(*values)
        except TypeError:
            names = ", ".join(each.name for each in integers)
            takes = f"integers for {names}" if names else "no integers"
            self.fail(f"{name} takes {takes}, got {values}", position)
        return self.make(position, find(name), *values, **seed)

    def make(self, position: int, maker: Callable[..., Any], *values: Any, **seed: int) -> Topology:
        """Return `maker(*values, **seed)`; if it raises, raise an error that marks the position."""
        try:
            topology: Topology = maker(*values, **seed)
        except (TypeError, ValueError) as error:
            self.fail(str(error), position)
        return topology

    def integer(self) -> int:
        token, _ = self.tokens[0]
        if not re.fullmatch("-?[0-9]+", token):
            self.expected("an integer")
        self.take(token)
        return int(token)

    def take(self, *tokens: str) -> int | None:
        """Consume the next token if it is one of `tokens`; return its position, or else None."""
        return self.tokens.popleft()[1] if self.tokens[0][0] in tokens else None

    def expected(self, what: str) -> NoReturn:
        token, position = self.tokens[0]
        self.fail(f"expected {what}, got {repr(token) if token else 'the end'}", position)

    def fail(self, message: str, position: int) -> NoReturn:
        raise ValueError(f"{message}\n    {self.spec}\n    {' ' * position}^")
