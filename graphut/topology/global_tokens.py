"""Nodes that see all tokens: global tokens, the last one, virtual nodes, the relay of a star."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphut.attention.ragged import ragged_arange
from graphut.topology.base import Topology
from graphut.topology.batch import Interval


@dataclass(frozen=True)
class Global(Topology):
    """Global tokens: they see all tokens, and all tokens see them.

    The symmetric global attention of Longformer (arXiv 2004.05150) and BigBird (arXiv
    2007.14062): `2 * g * n - g^2` edges for `g` of them. Those beyond the end of a shorter
    sentence are not there; a sentence without any has no edges.

    Parameters
    ----------
    *tokens : int
        Their positions in the sentence, from 0.

    Raises
    ------
    TypeError, ValueError
        If there is none, or one is not an integer, or negative.

    Examples
    --------
    >>> Global(0, 2).mask(4).int()
    tensor([[1, 1, 1, 1],
            [1, 0, 1, 0],
            [1, 1, 1, 1],
            [1, 0, 1, 0]], dtype=torch.int32)
    """

    name = "global"
    stable = True

    tokens: tuple[int, ...]

    def __init__(self, *tokens: int) -> None:
        object.__setattr__(self, "tokens", tokens)
        self.__post_init__()
        if not tokens or min(tokens) < 0:
            raise ValueError(f"global: tokens are positions from 0, at least one; got {tokens}")
        object.__setattr__(self, "tokens", tuple(sorted(set(tokens))))

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return all tokens for a global one, and the global tokens for any other."""
        tokens = torch.tensor(self.tokens)
        sees_all = torch.isin(dst, tokens)
        row, position = ragged_arange(torch.where(sees_all, n_src, len(tokens)))
        known = tokens[position.clamp(max=len(tokens) - 1)]
        return row, torch.where(sees_all[row], position, known)

    def _count_edges(self, n: int) -> int:
        present = sum(token < n for token in self.tokens)
        return 2 * present * n - present**2


@dataclass(frozen=True)
class Last(Topology):
    """The last token sees all tokens; the others see nobody.

    With `window:0|last` facts are only read, by a question at the end: a memory network (arXiv
    1503.08895) on a graph.

    Examples
    --------
    >>> Last().mask(3).int()
    tensor([[0, 0, 0],
            [0, 0, 0],
            [1, 1, 1]], dtype=torch.int32)
    """

    name = "last"

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return all tokens for the last one, and none for any other."""
        return torch.zeros_like(dst), torch.where(dst == n_dst - 1, n_src, 0)


@dataclass(frozen=True)
class Virtual(Topology, minimum={"nodes": 1}):
    """Extra nodes that see all tokens and are seen by all tokens.

    The virtual nodes of Exphormer (arXiv 2303.06147): `2 * nodes * n` edges. They start as zero.
    In `causal()` only the last token sees them, like a star's relay, and the others see nothing,
    so a decoder needs a union: `window:8&causal|virtual:1&causal`.

    Parameters
    ----------
    nodes : int
        Number of extra nodes, at least 1.

    Examples
    --------
    >>> Virtual(1).mask(3).int()
    tensor([[0, 0, 0, 1],
            [0, 0, 0, 1],
            [0, 0, 0, 1],
            [1, 1, 1, 0]], dtype=torch.int32)
    """

    name = "virtual"

    nodes: int

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Interval:
        """Return the extra nodes for a token, and the tokens for an extra node."""
        token = dst < n_dst
        return torch.where(token, n_src, 0), torch.where(token, n_src + self.nodes, n_src)

    def extra_nodes(self, n: Tensor) -> Tensor:
        """Return `nodes` for every sentence."""
        return torch.full_like(n, self.nodes)

    def extra_starts(self, extra: Tensor, n: Tensor) -> Interval:
        """Return empty intervals: virtual nodes start as zero."""
        return torch.zeros_like(n), torch.zeros_like(n)

    def _count_edges(self, n: int) -> int:
        return 2 * self.nodes * n


@dataclass(frozen=True)
class Star(Topology):
    """A ring of the tokens, and a relay that sees all of them and itself, and that all see.

    The Star-Transformer (arXiv 1902.09113): each token sees itself, its neighbour on either
    side (the first and the last are neighbours) and the relay, which starts as the mean of the
    tokens. `5n + 1` edges from 3 tokens on; two have one neighbour, one has none.

    In `causal()` only the last token sees the relay. In training that is the end of the sentence,
    in generation each new token: so a decoder should have spans (`binary_partition:1&causal`), or
    a token in the relay's place (`window:1&causal|global:0&causal`), whose edges stay as a
    sentence grows.

    Examples
    --------
    >>> Star().mask(4).int()
    tensor([[1, 1, 0, 1, 1],
            [1, 1, 1, 0, 1],
            [0, 1, 1, 1, 1],
            [1, 0, 1, 1, 1],
            [1, 1, 1, 1, 1]], dtype=torch.int32)
    >>> Star().causal().mask(4)[:4, 4]  # who sees the relay
    tensor([False, False, False,  True])
    """

    name = "star"

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ring and the relay for a token, and all nodes for the relay."""
        relay = dst == n_dst
        row, position = ragged_arange(torch.where(relay, n_src + 1, 4))
        n, i = n_src[row], dst[row]
        ring = torch.where(position < 3, (i + position - 1) % n, n)
        return row, torch.where(relay[row], position, ring)

    def extra_nodes(self, n: Tensor) -> Tensor:
        """Return 1, the relay, for every sentence."""
        return torch.ones_like(n)

    def _count_edges(self, n: int) -> int:
        return n * (2 + min(n - 1, 2)) + n + 1
