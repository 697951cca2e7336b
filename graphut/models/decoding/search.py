"""What all searches share: their options, and the sequences that they make."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The options of a search, as `GenerativeModel.generate` explains them.

    Raises
    ------
    ValueError
        If an option is out of range; the message quotes it.

    Examples
    --------
    >>> SearchOptions(max_length=0)
    Traceback (most recent call last):
    ValueError: max_length must be at least 1, got 0
    """

    max_length: int = 100
    beam_size: int = 1
    length_penalty: float = 0.6
    temperature: float | None = None
    top_p: float | None = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` if an option is out of range."""
        max_length, beam_size, penalty = self.max_length, self.beam_size, self.length_penalty
        temperature, top_p = self.temperature, self.top_p
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {max_length}")
        if beam_size < 1:
            raise ValueError(f"beam_size must be at least 1, got {beam_size}")
        if not 0 <= penalty < math.inf:
            raise ValueError(f"length_penalty must be 0 or more, got {penalty}")
        if temperature is not None and not temperature > 0:
            raise ValueError(
                f"temperature must be above 0, got {temperature}; leave it out for greedy"
            )
        if top_p is not None and not 0 < top_p <= 1:
            raise ValueError(f"top_p must lie in (0, 1], got {top_p}")
        if beam_size > 1 and self.samples:
            raise ValueError(
                f"beam_size={beam_size} and sampling (temperature, top_p) exclude each other; "
                "give one of them"
            )

    @property
    def samples(self) -> bool:
        """True if tokens are drawn from the model's distribution."""
        return self.temperature is not None or self.top_p is not None


@dataclass
class Hypothesis:
    """A sequence in the making: tokens without `bos`, but with `eos` if it came."""

    tokens: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    score: float = 0.0


def exclude(scores: Tensor, never: int | None) -> Tensor:
    """Set the scores of one token, if any, to minus infinity, in `(B, vocabulary)` scores.

    Examples
    --------
    >>> exclude(torch.tensor([[2.0, 1.0]]), never=0)
    tensor([[-inf, 1.]])
    """
    if never is None:
        return scores
    return scores.index_fill(-1, torch.tensor(never, device=scores.device), -torch.inf)
