"""Parse the option `--shape` of `graphut bench`, a size of a batch, without importing torch."""

from __future__ import annotations

import re


def parse_shape(shape: str) -> tuple[int, int, int]:
    """Return the number of sentences, and the smallest and the largest length of a sentence.

    Raise `ValueError` if the shape is malformed.

    Examples
    --------
    >>> parse_shape("64x10-60"), parse_shape("8x400")
    ((64, 10, 60), (8, 400, 400))
    """
    parts = re.fullmatch(r"(\d{1,9})x(\d{1,9})(?:-(\d{1,9}))?", shape)
    if parts is None:
        raise ValueError(f"{shape!r} is not a shape such as 64x10-60 or 8x400")
    sentences, shortest, longest = (int(part or parts[2]) for part in parts.groups())
    if sentences < 1 or not 1 <= shortest <= longest:
        raise ValueError(f"{shape!r} needs a sentence, and lengths from 1 in ascending order")
    return sentences, shortest, longest
