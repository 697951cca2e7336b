"""The metrics of many epochs, in little room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOST_POINTS = 50


def thinned(lines: Sequence[Mapping[str, Any]], best: int) -> dict[str, Any]:
    """Columns of what the metrics file has in lines, of at most 50 epochs.

    Parameters
    ----------
    lines : sequence of mapping
        One for each epoch, all with the same keys.
    best : int
        The place of the one that must not be left out, beside the first and the last.

    Raises
    ------
    ValueError
        If two lines have different keys.

    Examples
    --------
    >>> thinned([{"epoch": 1, "validation": {"x": 0.1234567}}, {"epoch": 2, "validation":
    ...     {"x": 1}}], best=1)
    {'epoch': [1, 2], 'validation': {'x': [0.123457, 1]}}
    """
    last = len(lines) - 1
    spread = MOST_POINTS - 2
    chosen = {round(i * last / spread) for i in range(spread + 1)} | {best}
    return _columns([rounded(lines[index]) for index in sorted(chosen)])


def rounded(value: Any) -> Any:
    """The same with six digits that count in each number that is not whole."""
    if isinstance(value, Mapping):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _columns(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if any(line.keys() != lines[0].keys() for line in lines):
        raise ValueError("the metrics do not have the same keys in every epoch")
    return {
        key: _columns([line[key] for line in lines])
        if isinstance(first, Mapping)
        else [line[key] for line in lines]
        for key, first in lines[0].items()
    }
