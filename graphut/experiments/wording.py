"""Counts and options as text, for code that has to load quickly: nothing is imported here."""

from __future__ import annotations


def counted(count: int, what: str) -> str:
    """Return a count of things.

    Examples
    --------
    >>> counted(1, "task"), counted(19, "task")
    ('1 task', '19 tasks')
    """
    return f"{count} {what}{'s' * (count != 1)}"


def flag(name: str) -> str:
    """Return the option of a field.

    Examples
    --------
    >>> flag("batch_size")
    '--batch-size'
    """
    return "--" + name.replace("_", "-")
