"""A bar while a set is judged, which takes a while where every token is decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from tqdm import tqdm

from graphut.experiments.tasks.base import in_batches

T = TypeVar("T")


def judged(examples: Sequence[T], size: int) -> Iterator[list[T]]:
    """The examples in order, `size` at a time, under a bar where somebody watches.

    Examples
    --------
    >>> list(judged([5, 6, 7], 2))
    [[5, 6], [7]]
    """
    with tqdm(total=len(examples), desc="judging", leave=False, disable=None) as bar:
        for batch in in_batches(examples, size):
            yield batch
            bar.update(len(batch))
