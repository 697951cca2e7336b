"""Argument parsers; command-line options for dataclasses, and dataclasses from parsed options."""

from __future__ import annotations

import re
from argparse import (
    SUPPRESS,
    ArgumentError,
    ArgumentParser,
    BooleanOptionalAction,
    RawDescriptionHelpFormatter,
    _ActionsContainer,
)
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from graphut._torch import torch
from graphut.experiments.messages import flag
from graphut.models.checked_config import CheckedConfig

T = TypeVar("T")


class Parser(ArgumentParser):
    """An `ArgumentParser` with error messages of one line, and without abbreviated options."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options, allow_abbrev=False)  # type: ignore[arg-type]
        # `main` reads this option before the command is parsed; each command only lists it.
        help = "first import this module, with your own tasks, topologies or rules; may be repeated"
        self.add_argument(
            "--import", action="append", default=SUPPRESS, metavar="MODULE", help=help
        )
        # Accept -1e-05 as a value too; argparse takes it for an option.
        self._negative_number_matcher = re.compile(r"-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$", re.I)

    def _check_value(self, action: Any, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        near = get_close_matches(str(value), map(str, action.choices), n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(action.choices)}"
        if action.dest == "task":
            hint += " (of your own task, name the file, such as mine.py, or --import MODULE)"
        raise ArgumentError(action, f"{value!r} is unknown; {hint}")

    def error(self, message: str) -> NoReturn:
        """Print an error of one line, and exit with status 2."""
        if unknown := re.match(r"unrecognized arguments: (--[\w-]+)", message):
            names = self._option_string_actions
            initials = {f"--{''.join(re.findall('-([a-z])', name))}": name for name in names}
            near = get_close_matches(initials.get(unknown[1], unknown[1]), names, n=1)
            message += f"; did you mean {near[0]}?" if near else ""
        self.exit(2, f"graphut: {message} (see {self.prog} --help)\n")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a command line whose options may be mixed with the positional arguments."""
        return self.parse_intermixed_args(args, namespace)


def word_parser(
    prog: str, name: str, words: Mapping[str, str], note: str, **options: Any
) -> Parser:
    """Return a parser whose first argument, `name`, is one of `words`; its help explains them."""
    width = max(map(len, words)) + 2
    lines = [f"  {word:{width}}{meaning}" for word, meaning in words.items()]
    parser = Parser(
        prog=prog,
        epilog="\n".join([f"{name}s:", *lines, "", note]),
        formatter_class=RawDescriptionHelpFormatter,
        **options,
    )
    parser.add_argument(name, choices=words, metavar=name.upper(), help="see below")
    return parser


def word(help: str, metavar: str, default: Any = MISSING) -> Any:
    """Declare a positional argument of a command."""
    return field(default=default, metadata={"help": help, "metavar": metavar, "is_word": True})


def argument(default: Any, help: str, metavar: str, least: int | None = None) -> Any:
    """Declare an option of a command, as `option` does; `metavar` names its value in the help."""
    return field(default=default, metadata={"help": help, "least": least, "metavar": metavar})


def switch(help: str) -> Any:
    """Declare an option of a command that is on if its name is given."""
    return field(default=False, metadata={"help": help, "is_switch": True})


@dataclass(frozen=True, kw_only=True)
class OnDevice(CheckedConfig):
    """The option of commands that run a model."""

    device: str | None = argument(None, '"cpu" or "cuda" (default: cuda, if there is one)', "NAME")


@dataclass(frozen=True, kw_only=True)
class WithTables(OnDevice):
    """The options of commands that evaluate a model."""

    results: str | None = argument(None, "append a row for each test set to this table", "CSV")

    def _check_values(self) -> None:
        if self.results is not None:
            import_module("graphut.experiments.records").check_table(self.results)


def pick_device(name: str | None) -> torch.device:
    """Return the device with this name; without a name, the GPU if available, else the CPU."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (AssertionError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"there is no device {name!r} here: {reason}") from None


def command_parser(prog: str, kind: type[Any]) -> Parser:
    """Return a parser with the options of a command, which the dataclass `kind` declares."""
    parser = Parser(prog=prog, description=" ".join((kind.__doc__ or "").split()))
    add_options(parser, kind)
    return parser


def add_options(
    group: _ActionsContainer,
    kind: type[Any],
    skip: Collection[str] = (),
    *,
    presets: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> None:
    """Add a command-line option to a parser or group for each field of the dataclass `kind`.

    Fields in `skip`, and fields that already have an option, are left out. Options that the user
    does not give are absent from the parsed namespace. The help shows the values in `presets`;
    those of the first preset are the defaults.
    """
    hints = get_type_hints(kind)
    for each in fields(kind):
        if each.name in skip or flag(each.name) in group._option_string_actions:
            continue
        help, reader = _help(each, presets).replace("%", "%%"), _reader(hints[each.name])
        if each.metadata.get("is_switch"):
            reader = {"action": "store_true"}
        elif "metavar" in each.metadata and "choices" not in reader:
            reader["metavar"] = each.metadata["metavar"]
        if each.metadata.get("is_word"):
            if reader.pop("action", None):
                reader["nargs"] = "+" if each.default is MISSING else "*"
            group.add_argument(each.name, help=each.metadata["help"], **reader)
        else:
            group.add_argument(flag(each.name), default=SUPPRESS, help=help, **reader)


def build(kind: type[T], options: Mapping[str, Any], **others: Any) -> T:
    """Build a dataclass from the options that are named like its fields, and `others`."""
    values = {name: options[name] for name in field_names(kind) if name in options} | others
    values = {name: tuple(x) if isinstance(x, list) else x for name, x in values.items()}
    for each in fields(kind):  # type: ignore[arg-type]
        if each.name not in values and _default(each) is MISSING:
            raise ValueError(f"{flag(each.name)} is missing: {each.metadata['help']}")
    return kind(**values)


def field_names(kind: type[Any]) -> list[str]:
    """Return the names of the fields of a dataclass."""
    return [field.name for field in fields(kind)]


def _default(option: Field[Any]) -> Any:
    return option.default if option.default_factory is MISSING else option.default_factory()


def _help(option: Field[Any], presets: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the help text of a field, with its default and its value in each preset."""
    usual = _default(option)
    values = {name: preset.get(option.name, usual) for name, preset in presets.items()}
    default = next(iter(values.values()), usual)
    written = " ".join(map(str, default)) if isinstance(default, tuple) else default
    notes = (
        []
        if written in (None, "") or option.metadata.get("is_switch")
        else ["required" if default is MISSING else f"default: {written}"]
    )
    names: dict[Any, list[str]] = {}
    for name, value in values.items():
        if value != default:
            names.setdefault(value, []).append(name)
    notes += [f"{', '.join(presets)}: {value}" for value, presets in names.items()]
    text: str = option.metadata["help"]
    return f"{text} ({'; '.join(notes)})" if notes else text


def _reader(annotation: Any) -> dict[str, Any]:
    """Return keyword arguments of `add_argument` for an option with this type annotation."""
    is_optional = get_origin(annotation) in (Union, UnionType)
    if is_optional:
        annotation = next(part for part in get_args(annotation) if part is not NoneType)
    if get_origin(annotation) is tuple:
        return {
            **_reader(get_args(annotation)[0]),
            "nargs": "*" if is_optional else "+",
            "action": "extend",
        }
    if annotation is bool:
        return {"action": BooleanOptionalAction}
    if get_origin(annotation) is Literal:
        return {"choices": get_args(annotation)}
    return {"type": annotation, "metavar": {int: "N", float: "X"}.get(annotation, "TEXT")}
