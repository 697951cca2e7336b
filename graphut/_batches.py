"""Examples, some at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def in_batches(examples: Sequence[T], size: int) -> Iterator[list[T]]:
    """The examples in order, `size` at a time; the last batch may be smaller.

    Examples
    --------
    >>> list(in_batches([5, 6, 7], 2))
    [[5, 6], [7]]
    """
    for start in range(0, len(examples), size):
        yield list(examples[start : start + size])
