"""Tokens that see all tokens: those that are seen by all too, and the last one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphut.topology.base import Topology
from graphut.topology.batch import ragged_arange


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
