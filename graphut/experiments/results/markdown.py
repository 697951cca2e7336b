"""Tables and numbers as they stand on the page."""

from __future__ import annotations

from collections.abc import Sequence

from graphut.experiments.bench.table import digits

NOTHING = "-"
"""What stands where nothing was measured."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; a pipe in a cell does not end it.

    Examples
    --------
    >>> print(table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    | --- | --- |
    | 1 | x\\|y |
    """
    lines = [head, ["---"] * len(head), *([_escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def code(*lines: str) -> str:
    """Commands, in a cell of a table.

    Examples
    --------
    >>> code("make", "run")
    '`make`, `run`'
    """
    return ", ".join(f"`{line}`" for line in lines)


def share(value: float) -> str:
    """A share of one, cut and not rounded up to all of it.

    Examples
    --------
    >>> share(0.5), share(1.0), share(0.99996)
    ('.500', '1.000', '.999')
    """
    text = f"{value:.3f}"
    if text == "1.000" and value < 1:
        return ".999"
    return text.removeprefix("0")


def percent(value: float) -> str:
    """A share, as percent.

    Examples
    --------
    >>> percent(0.0456)
    '4.56'
    """
    return f"{100 * value:.2f}"


def number(value: float) -> str:
    """Two digits behind the point.

    Examples
    --------
    >>> number(3.14159)
    '3.14'
    """
    return f"{value:.2f}"


def large(value: float) -> str:
    """A count, with the letter of its size.

    Examples
    --------
    >>> large(950), large(98_304), large(1.25e9)
    ('950', '98.3 k', '1.25 G')
    """
    for factor, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{digits(value / factor)} {letter}"
    return digits(value)
