"""Command-line options from the fields of dataclasses, and dataclasses from options."""

from __future__ import annotations

from argparse import SUPPRESS, BooleanOptionalAction, _ArgumentGroup
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, fields
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from graphut.cli.presets import PRESETS

T = TypeVar("T")


def flag(name: str) -> str:
    """The option of a field.

    Examples
    --------
    >>> flag("batch_size")
    '--batch-size'
    """
    return "--" + name.replace("_", "-")


def add_options(
    group: _ArgumentGroup, kinds: Mapping[str, type[Any]], skip: Collection[str] = ()
) -> None:
    """Add an option for each field of some dataclasses: its name, type, help and default.

    Where several have a field of one name, the help says what it is to each. An option
    that is not given leaves no trace, so that only the dataclasses know defaults.

    Parameters
    ----------
    group : argument group
        Where to add them.
    kinds : mapping of str to type
        Dataclasses whose fields have a "help" in their metadata, and what to call them in
        the help; "" for nothing.
    skip : collection of str
        Fields that are no options.
    """
    helps: dict[str, dict[str, list[str]]] = {}
    readers: dict[str, dict[str, Any]] = {}
    for label, kind in kinds.items():
        hints = get_type_hints(kind)
        for field in fields(kind):
            if field.name not in skip:
                helps.setdefault(field.name, {}).setdefault(_help(field), []).append(label)
                readers[field.name] = _reader(hints[field.name])
    for name, texts in helps.items():
        parts = [", ".join(labels) + ": " * any(labels) + text for text, labels in texts.items()]
        help = "; ".join(parts).replace("%", "%%")
        group.add_argument(flag(name), dest=name, default=SUPPRESS, help=help, **readers[name])


def build(kind: type[T], options: Mapping[str, Any], **others: Any) -> T:
    """A dataclass from those of the options that are its fields.

    Raises
    ------
    ValueError
        If a field without a default is not among them.
    """
    chosen = {name: options[name] for name in field_names(kind) if name in options} | others
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in chosen and _default(field) is MISSING:
            raise ValueError(f"{flag(field.name)} is missing")
    return kind(**chosen)


def field_names(kind: type[Any]) -> list[str]:
    """Names of a dataclass's fields."""
    return [field.name for field in fields(kind)]


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _help(field: Field[Any]) -> str:
    default = _default(field)
    notes = [] if default is None else ["required" if default is MISSING else f"default: {default}"]
    notes += [f"{task}: {v[field.name]}" for task, v in PRESETS.items() if field.name in v]
    text: str = field.metadata["help"]
    return f"{text} ({'; '.join(notes)})" if notes else text


def _reader(annotation: Any) -> dict[str, Any]:
    """What argparse needs to read a value of a type."""
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(part for part in get_args(annotation) if part is not NoneType)
    if annotation is bool:
        return {"action": BooleanOptionalAction}
    if get_origin(annotation) is Literal:
        return {"choices": get_args(annotation)}
    return {"type": annotation, "metavar": {int: "N", float: "X"}.get(annotation, "TEXT")}
