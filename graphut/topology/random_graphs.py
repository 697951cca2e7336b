"""Random links and random rings, as functions of a seed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphut.attention.dropout import mix
from graphut.topology.base import Topology
from graphut.topology.window import capped_sum


@dataclass(frozen=True)
class Random(Topology, minimum={"links": 1}):
    """Random links: each destination sees some tokens, half of them before it and half after.

    The random attention of BigBird (arXiv 2007.14062), which draws from the whole sentence at
    once. Here one half comes from either side, so that what a token sees of its past does not
    change when the sentence grows: `Random(...).causal()` is stable, and has the half before it.
    Sources are distinct, never the destination itself, and a function of the seed, the
    destination's position and, for those after it, the length of its sentence. About `n * links`
    edges: a side with fewer tokens than its half is seen as a whole.

    Parameters
    ----------
    links : int
        Number of sources of each destination, at least 1; an odd one is before it.
    seed : int
        Selects the sources; any integer.

    Examples
    --------
    >>> Random(2, seed=7).mask(5).int()
    tensor([[0, 0, 0, 0, 1],
            [1, 0, 1, 0, 0],
            [1, 0, 0, 1, 0],
            [0, 0, 1, 0, 1],
            [0, 1, 0, 0, 0]], dtype=torch.int32)
    """

    name = "random"
    stable_past = True

    links: int
    seed: int = 0

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return the random sources before each destination, and those after it."""
        before, after = self._halves
        back = random_choice(dst, before, self.seed, dst, 0)
        ahead = random_choice((n_src - dst - 1).clamp(min=0), after, self.seed, dst, 1)
        ahead = torch.where(ahead < 0, -1, ahead + dst[:, None] + 1)
        source = torch.cat([back, ahead], dim=1)
        return torch.arange(len(dst)).repeat_interleave(source.shape[1]), source.flatten()

    def _count_edges(self, n: int) -> int:
        return sum(capped_sum(n, half) for half in self._halves)

    @property
    def _halves(self) -> tuple[int, int]:
        return self.links - self.links // 2, self.links // 2


@dataclass(frozen=True)
class Expander(Topology, minimum={"degree": 2}):
    """Random rings through the whole sentence: each token sees its neighbours on every ring.

    The expander graph of Exphormer (arXiv 2303.06147): random, symmetric and regular, here
    the union of `degree / 2` rings. Each ring alone connects all tokens, and with a degree of 4 or
    more a few steps lead from any token to any other. At most `degree * n` edges, less where two
    rings share one or a ring has fewer than 3 tokens; a single token sees itself. A function of
    the seed and the length of the sentence, so it is not stable.

    Parameters
    ----------
    degree : int
        Neighbours of a token, even and at least 2.
    seed : int
        Selects the rings; any integer.

    Examples
    --------
    >>> Expander(2, seed=1).mask(5).sum(1)
    tensor([2, 2, 2, 2, 2])
    """

    name = "expander"

    degree: int
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the fields, and that the degree is even."""
        super().__post_init__()
        if self.degree % 2:
            raise ValueError(f"expander: degree must be even, got {self.degree}")

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return the two neighbours of each destination on every ring."""
        size = torch.maximum(n_dst, n_src)
        source = torch.empty(len(dst), self.degree, dtype=torch.int64)
        for n in size.unique().tolist():
            rows = (size == n).nonzero()[:, 0]
            for ring in range(self.degree // 2):
                source[rows, 2 * ring : 2 * ring + 2] = self._neighbours(n, ring)[dst[rows]]
        return torch.arange(len(dst)).repeat_interleave(self.degree), source.flatten()

    def _neighbours(self, n: int, ring: int) -> Tensor:
        """Return the two neighbours of every token on a ring, `(n, 2)`."""
        order = random_bits(self.seed, ring, torch.arange(n)).argsort(stable=True)
        neighbours = torch.empty(n, 2, dtype=torch.int64)
        neighbours[order] = torch.stack([order.roll(1), order.roll(-1)], dim=1)
        return neighbours


def random_bits(seed: int, *keys: Tensor | int) -> Tensor:
    """Return integers uniform in `0, ..., 2^32 - 1`: a function of a seed and of some keys.

    The seed is any integer; the keys are integers or tensors, whose shapes are broadcast.
    """
    low, high = (torch.tensor(half & 0xFFFFFFFF) for half in (seed, seed >> 32))
    bits = mix(low ^ mix(high))
    for key in keys:
        bits = mix(bits ^ mix(torch.as_tensor(key) + 0x9E3779B9))
    return bits


def random_choice(size: Tensor, count: int, seed: int, *keys: Tensor | int) -> Tensor:
    """Choose `count` distinct numbers below each size, every set as likely as any other.

    Floyd's algorithm. Sizes, `(D,)` int64, are at most `2^31`; below a size under `count`, all
    numbers are chosen. Seed and keys are as for `random_bits`. The result is `(D, count)`, -1 where
    nothing was left to choose, with fewer columns if no size has as many.

    Examples
    --------
    >>> random_choice(torch.tensor([0, 1, 2]), 2, 7, torch.arange(3)).sort().values
    tensor([[-1, -1],
            [-1,  0],
            [ 0,  1]])
    """
    chosen = torch.full((len(size), min(count, int(size.max()))), -1)
    for column in range(chosen.shape[1]):
        last = (size - count).clamp(min=0) + column
        bits = random_bits(seed, *keys, column)
        drawn = (bits * (last + 1)) >> 32
        taken = (chosen[:, :column] == drawn[:, None]).any(1)
        chosen[:, column] = torch.where(last < size, torch.where(taken, last, drawn), -1)
    return chosen
