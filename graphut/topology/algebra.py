"""Unions and intersections of topologies."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphut.topology.base import Topology

Run = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class _Pair(Topology, named=False):
    """What unions and intersections share."""

    left: Topology
    right: Topology

    def __post_init__(self) -> None:
        for part in (self.left, self.right):
            if not isinstance(part, Topology):
                raise TypeError(f"a union or intersection is of topologies, got {part!r}")

    @property
    def stable(self) -> bool:
        return self.left.stable and self.right.stable

    def clipped_intervals(
        self, dst: Tensor, n_dst: Tensor, n_src: Tensor
    ) -> tuple[Run, Run] | None:
        left = self.left.clipped_interval(dst, n_dst, n_src)
        right = self.right.clipped_interval(dst, n_dst, n_src)
        return None if left is None or right is None else (left, right)


@dataclass(frozen=True)
class Union(_Pair, named=False):
    """The edges of either topology, each once; written `left | right`.

    Examples
    --------
    >>> from graphut.topology import Causal, Window
    >>> (Window(1) | Causal()).mask(3).int()
    tensor([[1, 1, 0],
            [1, 1, 1],
            [1, 1, 1]], dtype=torch.int32)
    """

    name = "|"

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Run | None:
        runs = self.clipped_intervals(dst, n_dst, n_src)
        if runs is None:
            return None
        # Beside an empty run, the other is the union whatever lies between them.
        left, right = _or_where_empty(*runs), _or_where_empty(*reversed(runs))
        if bool((torch.maximum(left[0], right[0]) > torch.minimum(left[1], right[1])).any()):
            return None
        return torch.minimum(left[0], right[0]), torch.maximum(left[1], right[1])

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        left = self.left.in_edges(dst, n_dst, n_src)
        right = self.right.in_edges(dst, n_dst, n_src)
        return torch.cat([left[0], right[0]]), torch.cat([left[1], right[1]])

    def spec(self) -> str:
        right = f"({self.right})" if isinstance(self.right, Union) else str(self.right)
        return f"{self.left}|{right}"


@dataclass(frozen=True)
class Intersection(_Pair, named=False):
    """The edges that both topologies have; written `left & right`.

    Examples
    --------
    >>> from graphut.topology import Causal, Window
    >>> (Window(1) & Causal()).mask(3).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    """

    name = "&"

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Run | None:
        runs = self.clipped_intervals(dst, n_dst, n_src)
        if runs is None:
            return None
        left, right = runs
        return torch.maximum(left[0], right[0]), torch.minimum(left[1], right[1])

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        row, source = self.left.sorted_in_edges(dst, n_dst, n_src)
        other_row, other_source = self.right.sorted_in_edges(dst, n_dst, n_src)
        width = int(n_src.max())
        shared = torch.isin(
            row * width + source, other_row * width + other_source, assume_unique=True
        )
        return row[shared], source[shared]

    def spec(self) -> str:
        left = f"({self.left})" if isinstance(self.left, Union) else str(self.left)
        grouped = isinstance(self.right, (Union, Intersection))
        return f"{left}&({self.right})" if grouped else f"{left}&{self.right}"


def _or_where_empty(run: Run, other: Run) -> Run:
    empty = run[0] == run[1]
    return torch.where(empty, other[0], run[0]), torch.where(empty, other[1], run[1])
