"""Helpers for texts and numbers in messages; this module imports only the standard library."""

import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import getdoc
from pathlib import Path

NOT_MEASURED = "-"
_SHARES = ("accuracy", "known", "quiescent", "share")


def pluralize(count: int, noun: str, plural: str = "") -> str:
    """Return a count and its noun, such as "1 task", "19 tasks" or "2 batches"."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def three_digits(value: float) -> str:
    """Format a number with three significant digits; from 1000 on, round it to an integer."""
    text = f"{value:#.3g}"
    return f"{value:.0f}" if "e+" in text else text.rstrip(".")


def percent(value: float) -> str:
    """Format a share (from 0 to 1) as a percentage; only an exact 1 is written as 100.00%."""
    return f"{min(value, 0.9999) if value < 1 else value:.2%}"


def is_share(metric: str) -> bool:
    """Return whether a metric is a share (from 0 to 1), such as an accuracy, by its name."""
    return any(word in metric for word in _SHARES)


def meaning_of(kind: type) -> str:
    """Return the first paragraph of a class's docstring as one line."""
    return " ".join((getdoc(kind) or "").partition("\n\n")[0].split())


def flag(name: str) -> str:
    """Return the command-line option of a dataclass field: "batch_size" is `--batch-size`."""
    return "--" + name.replace("_", "-")


def import_words(modules: Iterable[str]) -> list[str]:
    """Return the command-line words that import a user's modules."""
    return [f"--import={module}" for module in modules]


def import_module_of_user(module: str) -> None:
    """Import a user's module; turn any error into an `ImportError` that names the module."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    with reraise_import_errors(f"--import {module}"):
        import_module(module)


@contextmanager
def reraise_import_errors(source: str) -> Iterator[None]:
    """Context manager that turns any error of a user's module into an `ImportError` of one line.

    The message begins with `source`, and names the line of the module.
    """
    try:
        yield
    except Exception as error:
        reason = traceback.format_exception_only(error)[-1].strip()
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame for frame in frames if frame.name == "<module>"]
        if isinstance(error, SyntaxError):
            reason = f"line {error.lineno} of {Path(error.filename or source).name}: {reason}"
        elif lines:
            reason = f"line {lines[-1].lineno} of {Path(lines[-1].filename).name}: {reason}"
        else:  # the module was not found
            reason += "; a module is in the current folder, or installed, and is named without .py"
        raise ImportError(f"{source}: {reason}") from error
