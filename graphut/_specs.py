"""Parsers of the specs of halting rules and topologies, which do not import torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from inspect import Parameter, Signature, signature
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
Makers = Mapping[str, Callable[..., Any]]

_TOKEN = re.compile(r"\s*([|&():,@]|[^\s|&():,@]+)")


def split_rule(spec: str, rules: Mapping[str, T]) -> tuple[T, str]:
    """Return the entry of `rules` for the name in the spec of a rule, and its settings as text.

    Raise `ValueError` if the name is unknown.
    """
    name, _, settings = spec.partition(":")
    if name not in rules:
        near = get_close_matches(name, rules, n=1)
        choose = f", did you mean {near[0]}? Choose" if near else "; choose"
        raise ValueError(
            f"there is no halting rule {name!r}{choose} one of: {', '.join(rules)} (import the "
            "module of your own rule first: --import MODULE)"
        )
    return rules[name], settings


def rule_settings(rule: str, defaults: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return settings such as `threshold=0.9,weighting=last`, with the types of the defaults.

    Raise `ValueError` if a setting is unknown, or its value has another type.
    """
    settings: dict[str, Any] = {}
    for part in text.split(",") if text else []:
        name, _, value = part.partition("=")
        if name not in defaults:
            names = ", ".join(defaults) or "none"
            raise ValueError(f"{rule!r} has no setting {name!r}; its settings: {names}")
        if name in settings:
            raise ValueError(f"{rule!r} has the setting {name!r} twice: give it once")
        kind = type(defaults[name])
        try:
            settings[name] = {"true": True, "false": False}[value] if kind is bool else kind(value)
        except (KeyError, ValueError):
            wanted = {bool: "true or false", int: "a whole number"}.get(kind, "a number")
            raise ValueError(f"{name} of {rule!r} must be {wanted}, got {value!r}") from None
    return settings


def signatures(makers: Makers) -> list[str]:
    """Return the syntax of each named topology, with the names of its integers and its seed."""
    found = []
    for name, make in sorted(makers.items()):
        integers, seeded = _parameters(make)
        names = ",".join(p.name + ",..." * (p.kind is p.VAR_POSITIONAL) for p in integers)
        found.append(name + ":" * bool(names) + names + "@seed" * seeded)
    return found


def _parameters(make: Callable[..., Any]) -> tuple[list[Parameter], bool]:
    """Return the integer parameters of a class or function, and whether it takes a seed."""
    parameters = signature(make).parameters
    return [p for p in parameters.values() if p.name != "seed"], "seed" in parameters


class TopologyParser:
    """Recursive descent parser of one spec; unlike `ast`, its errors say what was expected."""

    def __init__(self, spec: str, makers: Makers, operators: Makers) -> None:
        self.spec, self.makers, self.operators = spec, makers, operators
        self.tokens = [(match[1], match.start(1)) for match in _TOKEN.finditer(spec)]
        self.tokens.append(("", len(spec.rstrip())))

    def parse(self) -> Any:
        try:
            topology = self.combined()
        except RecursionError:
            raise ValueError(f"parentheses are nested too deeply: {self.spec[:40]}...") from None
        if self.tokens[0][0]:
            self.expected("'|', '&' or the end")
        return topology

    def combined(self, operator: str = "|") -> Any:
        """Parse specs that are joined by `operator`; `&` binds more tightly than `|`."""
        operand = partial(self.combined, "&") if operator == "|" else self.operand
        topology = operand()
        while (position := self.take(operator)) is not None:
            topology = self.make(position, self.operators[operator], topology, operand())
        return topology

    def operand(self) -> Any:
        if self.take("(") is None:
            return self.named()
        topology = self.combined()
        if self.take(")") is None:
            self.expected("')'")
        return topology

    def named(self) -> Any:
        name, position = self.tokens[0]
        if self.take(*self.makers) is None:
            hint = " (import the module of your own topology first: --import MODULE); known are "
            hint += "; ".join(signatures(self.makers))
            if name in {"", *"|&():,@"}:
                self.expected("a topology", hint)
            near = get_close_matches(name, self.makers, n=1)
            meant = f", did you mean {near[0]}?" if near else ""
            self.fail(f"unknown topology {name!r}{meant}{hint}", position)
        values = [] if self.take(":") is None else [self.integer()]
        while values and self.take(",") is not None:
            values.append(self.integer())
        seed = {} if self.take("@") is None else {"seed": self.integer()}
        integers, seeded = _parameters(self.makers[name])
        try:
            Signature(integers).bind(*values)
        except TypeError:
            names = ", ".join(p.name for p in integers)
            takes = f"{len(integers)} integer{'s' * (len(integers) > 1)} ({names})"
            takes = takes if integers else "no integers"
            self.fail(f"{name} takes {takes}, got {len(values)}", position)
        if seed and not seeded:
            self.fail(f"{name} takes no seed", position)
        return self.make(position, self.makers[name], *values, **seed)

    def make(self, position: int, maker: Callable[..., Any], *values: Any, **seed: int) -> Any:
        """Return `maker(*values, **seed)`; if it raises, raise an error that marks the position."""
        try:
            return maker(*values, **seed)
        except (TypeError, ValueError) as error:
            self.fail(str(error), position)

    def integer(self) -> int:
        token, _ = self.tokens[0]
        if not re.fullmatch("-?[0-9]+", token):
            self.expected("an integer")
        self.take(token)
        return int(token)

    def take(self, *tokens: str) -> int | None:
        """Consume the next token if it is one of `tokens`; return its position, or else None."""
        return self.tokens.pop(0)[1] if self.tokens[0][0] in tokens else None

    def expected(self, what: str, hint: str = "") -> NoReturn:
        token, position = self.tokens[0]
        self.fail(f"expected {what}, got {repr(token) if token else 'the end'}{hint}", position)

    def fail(self, message: str, position: int) -> NoReturn:
        raise ValueError(f"{message}\n    {self.spec}\n    {' ' * position}^")
