"""Sentences of a benchmark: how many, and how long."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sizes:
    """A batch of sentences whose lengths are drawn evenly between two bounds, always the same.

    Parameters
    ----------
    sentences : int
        How many.
    shortest, longest : int
        Bounds of their lengths, both included.

    Raises
    ------
    ValueError
        If there is no sentence, or the bounds are not `1 <= shortest <= longest`.

    Examples
    --------
    >>> str(Sizes.parse("64x10-60")), str(Sizes.parse("8x400"))
    ('64x10-60', '8x400')
    >>> Sizes(3, 2, 2).lengths()
    tensor([2, 2, 2])
    """

    sentences: int
    shortest: int
    longest: int

    def __post_init__(self) -> None:
        if self.sentences < 1:
            raise ValueError(f"a batch needs a sentence at least, got {self.sentences}")
        if not 1 <= self.shortest <= self.longest:
            raise ValueError(
                f"lengths must be 1 or more and ascend, got {self.shortest}-{self.longest}"
            )

    @classmethod
    def parse(cls, text: str) -> Sizes:
        """Read `64x10-60` (64 sentences of 10 to 60 tokens) or `8x400`."""
        sentences, cross, bounds = text.partition("x")
        if not (cross and sentences.isdecimal()):
            raise ValueError(f"{text!r} is no shape such as 64x10-60 or 8x400")
        return cls(int(sentences), *parse_bounds(bounds))

    def lengths(self) -> Tensor:
        """`(sentences,)` int64."""
        generator = torch.Generator().manual_seed(0)
        return torch.randint(
            self.shortest, self.longest + 1, (self.sentences,), generator=generator
        )

    def __str__(self) -> str:
        bounds = str(self.shortest)
        if self.longest > self.shortest:
            bounds += f"-{self.longest}"
        return f"{self.sentences}x{bounds}"


def parse_bounds(text: str) -> tuple[int, int]:
    """Read `10-60`, or `400` for a length that all have.

    Examples
    --------
    >>> parse_bounds("10-60"), parse_bounds("400")
    ((10, 60), (400, 400))
    """
    if not re.fullmatch("[0-9]{1,9}(-[0-9]{1,9})?", text):
        raise ValueError(f"{text!r} is no range of lengths such as 10-60")
    low, _, high = text.partition("-")
    return int(low), int(high or low)
