"""Configurations with help texts for their fields, and checks of types and values."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

_T = TypeVar("_T")
_LARGEST = 1e30  # products of such numbers and of weights are finite in float32
_TYPES = {int: "an integer", bool: "True or False", str: "text"}


def option(default: Any, help: str, *, least: float | None = None) -> Any:
    """Declare a field of a dataclass with a help text, which the command line prints.

    For a required field, `default` is `dataclasses.MISSING`. `least` is the smallest valid value.
    """
    return field(default=default, metadata={"help": help, "least": least})


@dataclass(frozen=True, kw_only=True)
class CheckedConfig:
    """A base class of configurations, which checks the type and the minimum of each field.

    A subclass overrides `_check_values` for further checks of the values.
    """

    def __new__(cls, *_: Any, **options: Any) -> Any:
        """Raise `TypeError` for an unknown option, and suggest the nearest name."""
        names, owner = [each.name for each in fields(cls)], getattr(cls, "_owner", cls.__name__)
        for name in options.keys() - names:
            known = f"; it has {', '.join(names)}" if len(names) < 9 else ""
            raise TypeError(f"{owner} has no option {name!r}{suggest(name, names) or known}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Raise `ValueError`, which quotes the value, if a field has a wrong type or value."""
        types = get_type_hints(type(self))
        for each in fields(self):
            name, least = each.name, each.metadata.get("least")
            value, kind = getattr(self, name), types[name]
            is_whole = isinstance(value, Integral) and not isinstance(value, bool)
            if is_whole and int in (kind, *get_args(kind)):
                # JSON cannot represent integers of NumPy.
                object.__setattr__(self, name, value := int(value))
            if kind is str and hasattr(value, "spec"):  # a topology or a rule
                object.__setattr__(self, name, value := value.spec())
            self._check(name, *_matches_type(value, kind))
            numbers = value if isinstance(value, tuple) else (value,)
            is_large = all(least is None or x is None or x >= least for x in numbers)
            self._check(name, is_large, f"at least {least}")
        self._check_values()

    def _check_values(self) -> None:
        """Raise `ValueError` if a value of the right type is invalid; subclasses override this."""

    def _check(self, name: str, is_valid: bool, wanted: str) -> None:
        if not is_valid:
            raise ValueError(f"{name} must be {wanted}; got {quote(getattr(self, name))}")

    def _check_defaults(self, is_free: bool, why: str, *names: str) -> None:
        """Raise `ValueError` if fields in `names` do not have their defaults, unless `is_free`."""
        for each in fields(self):
            if each.name in names and not is_free:
                is_default = getattr(self, each.name) == each.default
                self._check(each.name, is_default, f"{each.default!r} {why}")

    def _parsed(self, name: str, parse: Callable[[str], _T]) -> _T:
        """Return `parse` of a field's value; raise a one-line `ValueError` that names the field."""
        value = getattr(self, name)
        try:
            return parse(value)
        except ValueError as error:
            reason = cut(str(error).splitlines()[0], 600)
            raise ValueError(f"{name} cannot be {quote(value)}: {reason}") from None


def suggest(name: str, names: Iterable[str]) -> str:
    """Return the end of an error message, which suggests the nearest name if one is near."""
    near = get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def quote(value: object) -> str:
    """Return the `repr` of a value for an error message, cut to 80 characters."""
    return cut(repr(value), 80)


def cut(text: str, length: int) -> str:
    """Shorten a text to at most `length` characters; a shortened text ends with three dots."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _matches_type(value: Any, expected: Any) -> tuple[bool, str]:
    """Return whether a value has the expected type, and a description of the type."""
    if get_origin(expected) in (Union, UnionType):
        expected = next(part for part in get_args(expected) if part is not NoneType)
        return (True, "") if value is None else _matches_type(value, expected)
    if get_origin(expected) is tuple:
        if not isinstance(value, tuple):
            return False, "a tuple"
        matches = [_matches_type(part, get_args(expected)[0]) for part in value]
        return next((match for match in matches if not match[0]), (True, ""))
    if get_origin(expected) is Literal:
        return value in get_args(expected), f"one of {', '.join(map(repr, get_args(expected)))}"
    if expected is float:
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        in_range = is_number and abs(value) <= _LARGEST  # False for NaN
        return in_range, f"a number from -{_LARGEST:g} to {_LARGEST:g}"
    # Other types belong to tasks of users, which check them.
    return expected not in _TYPES or type(value) is expected, _TYPES.get(expected, "")
