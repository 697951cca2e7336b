"""Configurations whose fields have help texts, and check their types and values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

_T = TypeVar("_T")
_LARGEST = 1e30  # products of such numbers and of weights are finite in float32
_MEANINGS = {int: "a whole number", bool: "True or False", str: "text"}


def option(default: Any, help: str, *, least: float | None = None) -> Any:
    """Declare a field of a dataclass with its help text, which the command line prints.

    The default is `dataclasses.MISSING` for a field that must be given. `least` is the smallest
    value that is accepted.
    """
    return field(default=default, metadata={"help": help, "least": least})


@dataclass(frozen=True, kw_only=True)
class CheckedConfig:
    """A base of configurations whose fields are of the declared types; extend `_check_values`."""

    def __post_init__(self) -> None:
        """Raise `ValueError`, which quotes the value, if a field has a wrong type or value."""
        kinds = get_type_hints(type(self))
        for each in fields(self):
            name, least = each.name, each.metadata.get("least")
            if get_origin(kinds[name]) is not Literal and kinds[name] not in (float, *_MEANINGS):
                raise TypeError(
                    f"{type(self).__name__}.{name} is declared as {kinds[name]}: a field of a "
                    "configuration is an int, a float, a bool, a str or a Literal"
                )
            value = getattr(self, name)
            self._check(name, *_matches_type(value, kinds[name]))
            self._check(name, least is None or value >= least, f"at least {least}")
        self._check_values()

    def _check_values(self) -> None:
        """Raise `ValueError` if a value of the right type is out of range."""

    def _check(self, name: str, right: bool, wanted: str) -> None:
        if not right:
            raise ValueError(f"{name} must be {wanted}; got {quote(getattr(self, name))}")

    def _parsed(self, name: str, parse: Callable[[str], _T]) -> _T:
        """Return what a parser makes of a field; raise a `ValueError` of one line."""
        value = getattr(self, name)
        try:
            return parse(value)
        except ValueError as error:
            reason = cut(str(error).splitlines()[0], 400)
            raise ValueError(f"{name} cannot be {quote(value)}: {reason}") from None


def quote(value: object) -> str:
    """Return the `repr` of a value for an error message, cut to 80 characters.

    Examples
    --------
    >>> quote("word"), len(quote("a" * 1000))
    ("'word'", 80)
    """
    try:
        return cut(repr(value), 80)
    except ValueError:  # Python refuses to print integers of more than 4300 digits
        return f"a {type(value).__name__} that is too long to print"


def cut(text: str, length: int) -> str:
    """Return a text, or its beginning and three dots if it is longer than `length`."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _matches_type(value: Any, kind: Any) -> tuple[bool, str]:
    """Return whether a value has a field's type, and a description of the type."""
    if get_origin(kind) is Literal:
        return value in get_args(kind), f"one of {', '.join(map(repr, get_args(kind)))}"
    if kind is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and abs(value) <= _LARGEST, f"a number from -{_LARGEST} to {_LARGEST}"
    return type(value) is kind, _MEANINGS[kind]
