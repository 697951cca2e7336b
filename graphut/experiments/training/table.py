"""Tokens, and under each the number of steps it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shutil import get_terminal_size

_MARGIN = 8  # columns


def steps_table(
    label: str, tokens: Sequence[str], steps: Sequence[int], width: int | None = None
) -> str:
    """Two aligned rows, broken where the terminal ends.

    Parameters
    ----------
    label : str
        What the tokens are.
    tokens, steps : sequence
        Equally many.
    width : int, optional
        Columns to fill; those of the terminal, if not given.

    Examples
    --------
    >>> print(steps_table("output", ["a", "be", "<eos>"], [2, 12, 1]))
    output  a be <eos>
    steps   2 12 1
    """
    columns = list(zip(tokens, map(str, steps), strict=True))
    widths = [max(map(len, column)) for column in columns]
    room = (width or get_terminal_size().columns) - _MARGIN
    lines = []
    for part in _breaks(widths, room):
        for row, name in enumerate((label, "steps")):
            cells = [f"{columns[i][row]:{widths[i]}}" for i in part]
            lines.append(f"{name:{_MARGIN}}{' '.join(cells)}".rstrip())
    return "\n".join(lines)


def steps_list(texts: Sequence[str], steps: Sequence[int]) -> str:
    """A line for each text, with its steps before it.

    Examples
    --------
    >>> print(steps_list(["Mary went home.", "Where is Mary?"], [1, 12]))
    steps
         1  Mary went home.
        12  Where is Mary?
    """
    lines = [f"{number:6}  {text}" for text, number in zip(texts, steps, strict=True)]
    return "\n".join(["steps", *lines])


def _breaks(widths: Sequence[int], room: int) -> Iterator[range]:
    """Runs of columns that fit beside each other, each of one column at least."""
    start = used = 0
    for index, width in enumerate(widths):
        if index > start and used + width > room:
            yield range(start, index)
            start, used = index, 0
        used += width + 1
    yield range(start, len(widths))
