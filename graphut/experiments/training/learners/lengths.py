"""What was found on pairs, by their length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from graphut.experiments.training.learners.judgement import Judgement, summarize

MOST_ROWS = 20


def by_length(judgements: Sequence[Judgement], length: str) -> list[dict[str, Any]]:
    """Accuracy and mean steps for each range of lengths.

    Ranges are 1, 2, 5, 10, 20, 50, ... wide, the least that makes at most 20 of them. A row
    says which lengths it has from the shortest to the longest; ranges without a sequence have
    no row.

    Parameters
    ----------
    judgements : sequence of Judgement
        What was found.
    length : str
        "source_length" or "target_length".

    Examples
    --------
    >>> rows = by_length([Judgement(n, n, True, n + 1, n + 1, n, 3 * (n + 1))
    ...     for n in (3, 20, 99, 100)], "source_length")
    >>> [(row["from"], row["to"], row["examples"]) for row in rows]
    [(3, 3, 1), (20, 20, 1), (99, 100, 2)]
    >>> rows[0]["decoder_steps"]
    3.0
    """
    longest = max(getattr(judgement, length) for judgement in judgements)
    width = next(width for width in _widths() if width * MOST_ROWS >= longest)
    groups: dict[int, list[Judgement]] = {}
    for judgement in judgements:
        # An empty target is among the shortest.
        groups.setdefault(max(getattr(judgement, length) - 1, 0) // width, []).append(judgement)
    return [_row(group, length) for _, group in sorted(groups.items())]


def _row(judgements: Sequence[Judgement], length: str) -> dict[str, Any]:
    lengths = [getattr(judgement, length) for judgement in judgements]
    found = summarize(judgements).to_dict()
    return {"from": min(lengths), "to": max(lengths), "examples": len(judgements), **found}


def _widths() -> Iterator[int]:
    for power in count():
        yield from (10**power, 2 * 10**power, 5 * 10**power)
