"""The fields of a configuration: each has a default, a help text, and values that fit its type."""

from __future__ import annotations

from dataclasses import field
from math import isfinite
from typing import Any, Literal, get_args, get_origin

_MEANINGS = {int: "a whole number", bool: "True or False", str: "text"}


def option(default: Any, help: str) -> Any:
    """A field with a help text."""
    return field(default=default, metadata={"help": help})


def fits(value: Any, kind: Any) -> tuple[bool, str]:
    """Whether a value is of a field's type, and what that is.

    Examples
    --------
    >>> fits(1.5, int)
    (False, 'a whole number')
    """
    if get_origin(kind) is Literal:
        return value in get_args(kind), f"one of {', '.join(map(repr, get_args(kind)))}"
    if kind is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and isfinite(value), "a finite number"
    return type(value) is kind, _MEANINGS[kind]
