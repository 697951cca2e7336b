"""A token decoder that is a mere table."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Table:
    """A token decoder with random logits for each sentence and prefix, some flat, some steep."""

    def __init__(self, sentences: int, vocabulary: int, seed: int) -> None:
        self.prefixes = [(sentence,) for sentence in range(sentences)]
        self.vocabulary, self.seed = vocabulary, seed

    def advance(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        pairs = zip(parents.tolist(), tokens.tolist(), strict=True)
        self.prefixes = [(*self.prefixes[parent], token) for parent, token in pairs]
        rows = [self.row(prefix) for prefix in self.prefixes]
        return torch.stack(rows), torch.tensor([steps_of(prefix) for prefix in self.prefixes])

    def row(self, prefix: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, *prefix)) % 2**31)
        spread = 4 * torch.rand(1, generator=generator) ** 2
        return spread * torch.randn(self.vocabulary, generator=generator)


def steps_of(prefix: Sequence[int]) -> int:
    """The steps that a `Table` says the last token of a prefix took."""
    return hash(tuple(prefix)) % 7 + 1
