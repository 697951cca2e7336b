"""A table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart: the first flush left, the others flush right.

    A row that is shorter than the head ends in a text that may run on.

    Examples
    --------
    >>> print(aligned(["who", "ms"], [["a", "10.5"], ["bee", "9"], ["c", "7"]]))
    who    ms
    a    10.5
    bee     9
    c       7
    """
    full = [row for row in (head, *rows) if len(row) == len(head)]
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    widths[0] = max(len(row[0]) for row in (head, *rows))
    lines = []
    for row in (head, *rows):
        cells = [f"{row[0]:{widths[0]}}"]
        if len(row) == len(head):
            cells += [f"{x:>{w}}" for x, w in zip(row[1:], widths[1:], strict=True)]
        else:
            cells += row[1:]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def digits(value: float) -> str:
    """Three digits that count.

    Examples
    --------
    >>> digits(0.01234), digits(3.456), digits(45.67), digits(1234.5)
    ('0.0123', '3.46', '45.7', '1234')
    """
    text = f"{value:#.3g}"
    return f"{value:.0f}" if "e" in text else text.rstrip(".")
