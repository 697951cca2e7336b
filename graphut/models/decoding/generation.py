"""What a decoder does for a search, and what a search hands back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Generation:
    """One generated sequence.

    Parameters
    ----------
    tokens : list of int
        Without `bos` and `eos`.
    score : float
        Log-probability of the sequence, in nats, `eos` included if it came.
    steps : list of int
        Ponder steps of each generated token, `eos` included if it came.
    source_steps : list of int
        Ponder steps of each source token.
    """

    tokens: list[int]
    score: float
    steps: list[int]
    source_steps: list[int]


class TokenDecoder(Protocol):
    """A batch of hypotheses, each of which grows by one token at a time."""

    def advance(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Extend hypotheses by a token each.

        Parameters
        ----------
        parents : Tensor
            `(B,)` int64, which of the hypotheses before each new one extends; at first, which
            source sentence it answers.
        tokens : Tensor
            `(B,)` int64, the tokens to add.

        Returns
        -------
        tuple of Tensor
            `(B, vocabulary)` logits of the next token, and `(B,)` ponder steps of the added one.
        """


def allowed(scores: Tensor, never: int | None) -> Tensor:
    """Scores of the next token, `(B, vocabulary)`, of which one is never taken.

    Examples
    --------
    >>> allowed(torch.tensor([[2.0, 1.0]]), never=0)
    tensor([[-inf, 1.]])
    """
    if never is None:
        return scores
    return scores.index_fill(-1, torch.tensor(never, device=scores.device), -torch.inf)


def check_search(
    max_length: int,
    beam_size: int,
    length_penalty: float,
    temperature: float | None,
    top_p: float | None,
) -> None:
    """Raise `ValueError`, which quotes the value, if an option of a search is out of range.

    Examples
    --------
    >>> check_search(10, 4, 0.6, None, None)
    """
    if max_length < 1:
        raise ValueError(f"max_length must be at least 1, got {max_length}")
    if beam_size < 1:
        raise ValueError(f"beam_size must be at least 1, got {beam_size}")
    if not 0 <= length_penalty < math.inf:
        raise ValueError(f"length_penalty must be 0 or more, got {length_penalty}")
    if temperature is not None and not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}; leave it out for greedy")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie in (0, 1], got {top_p}")
    if beam_size > 1 and (temperature is not None or top_p is not None):
        raise ValueError(
            f"beam_size={beam_size} and sampling (temperature, top_p) exclude each other; "
            "give one of them"
        )
