"""What a decoder does for a search, and what a search hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

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
