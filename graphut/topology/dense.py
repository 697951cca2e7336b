"""Dense topologies: all sources, or all up to the destination."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphut.topology.base import Topology
from graphut.topology.batch import Interval


@dataclass(frozen=True)
class Complete(Topology):
    """Complete graph: every destination sees every source of its sentence, `n * m` edges.

    An encoder's self-attention, and the cross-attention from target to source.

    Examples
    --------
    >>> Complete().graph([2, 3]).num_edges()
    13
    >>> Complete().layout([2], src_lengths=[5]).num_edges
    10
    """

    name = "complete"
    stable = True

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Interval:
        """Return all sources of the sentence."""
        return torch.zeros_like(dst), n_src

    def _count_edges(self, n: int) -> int:
        return n * n


@dataclass(frozen=True)
class Causal(Topology):
    """Causal graph: destination `i` sees the sources `j <= i`, `n * (n + 1) / 2` edges.

    A decoder's self-attention. `other.causal()` is the causal half of another topology.

    Examples
    --------
    >>> Causal().mask(3).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """

    name = "causal"
    stable = True

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Interval:
        """Return the sources up to the destination."""
        return torch.zeros_like(dst), dst + 1

    def _count_edges(self, n: int) -> int:
        return n * (n + 1) // 2
