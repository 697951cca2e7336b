"""Helpers for texts in messages; this module imports only the standard library."""

from collections.abc import Iterable
from inspect import getdoc


def pluralize(count: int, noun: str, plural: str = "") -> str:
    """Return a count and its noun, such as "1 task", "19 tasks" or "2 batches"."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def meaning_of(kind: type) -> str:
    """Return the first paragraph of a class's docstring as one line."""
    return " ".join((getdoc(kind) or "").partition("\n\n")[0].split())


def flag(name: str) -> str:
    """Return the command-line option of a dataclass field: "batch_size" is `--batch-size`."""
    return "--" + name.replace("_", "-")


def import_words(modules: Iterable[str]) -> list[str]:
    """Return the command-line words that import a user's modules."""
    return [f"--import={module}" for module in modules]
