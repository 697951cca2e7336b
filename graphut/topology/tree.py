"""Topologies of a complete tree of tokens in breadth-first order: `Tree` and `Ancestors`."""

from __future__ import annotations

from dataclasses import dataclass

from graphut._torch import Tensor, torch
from graphut.attention.ragged import ragged_arange
from graphut.topology.base import Topology


@dataclass(frozen=True)
class Tree(Topology, minimum={"arity": 1}):
    """Complete tree: each token attends to itself, its parent and its children.

    The tokens are in breadth-first order: the children of token `i` are `arity * i + 1, ..., arity
    * i + arity`. There are `3n - 2` edges. For other trees use `from_parents`.

    Examples
    --------
    >>> Tree(2).mask(5)[1].int()  # the sources of destination 1
    tensor([1, 1, 0, 1, 1], dtype=torch.int32)
    """

    name = "tree"
    stable = True
    _known_causal = False

    arity: int

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges from the parent, the token itself and its children."""
        arity = min(self.arity, int(torch.maximum(n_dst, n_src).max()))
        parent = torch.div(dst - 1, arity, rounding_mode="floor")
        first = dst * arity + 1
        row, child = ragged_arange((n_src - first).clamp(0, arity))
        every = torch.arange(len(dst))
        return torch.cat([every, every, row]), torch.cat([parent, dst, first[row] + child])


@dataclass(frozen=True)
class Ancestors(Topology, minimum={"arity": 1}):
    """Complete tree: each token attends to itself and to all its ancestors.

    The tree is the same as in `Tree`. Ancestors come before their descendants, so the topology is
    causal. There are about `n * log(n) / log(arity)` edges.

    Examples
    --------
    >>> Ancestors(2).mask(5)[4].int()  # the sources of destination 4
    tensor([1, 1, 0, 0, 1], dtype=torch.int32)
    """

    name = "ancestors"
    stable = True
    _known_causal = True

    arity: int

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges from the token itself and from its ancestors up to the root."""
        row = torch.arange(len(dst))
        rows, sources = [], []
        while row.numel():
            rows.append(row)
            sources.append(dst)
            row, dst = row[dst > 0], (dst[dst > 0] - 1) // self.arity
        return torch.cat(rows), torch.cat(sources)
