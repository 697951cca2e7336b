"""Counts, options and advice as text, for code that has to load quickly: no package is imported."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import getdoc


def counted(count: int, what: str, several: str = "") -> str:
    """Return a count of things; `several` is what several are called, if not with an "s".

    Examples
    --------
    >>> counted(1, "task"), counted(19, "task"), counted(2, "batch", "batches")
    ('1 task', '19 tasks', '2 batches')
    """
    return f"{count} {what if count == 1 else several or f'{what}s'}"


def meaning_of(kind: type) -> str:
    r"""Return the first paragraph of a class's docstring, in one line.

    Examples
    --------
    >>> meaning_of(type("Digits", (), {"__doc__": "Digits, written\n    once.\n\n    More."}))
    'Digits, written once.'
    """
    return " ".join((getdoc(kind) or "").partition("\n\n")[0].split())


def flag(name: str) -> str:
    """Return the option of a field.

    Examples
    --------
    >>> flag("batch_size")
    '--batch-size'
    """
    return "--" + name.replace("_", "-")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return what to add to an error about an unknown word; nothing if no known one is like it.

    Examples
    --------
    >>> did_you_mean("trian", ["train", "eval"])
    "; did you mean 'train'?"
    """
    from difflib import get_close_matches  # for an error alone

    close = get_close_matches(word, [*known], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
