"""Counts and long names, as people read them."""

from __future__ import annotations


def counted(count: int, what: str) -> str:
    """A count of things.

    Examples
    --------
    >>> counted(1, "task"), counted(19, "task")
    ('1 task', '19 tasks')
    """
    return f"{count} {what}{'s' * (count != 1)}"


def shortened(text: str, longest: int = 32) -> str:
    """A text, cut where there is no room for all of it.

    Examples
    --------
    >>> shortened("window:4|global:0", 13)
    'window:4|g...'
    """
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
