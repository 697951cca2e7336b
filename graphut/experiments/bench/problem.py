"""The attention call that contenders are to do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.autotune import call_kind
from graphut.experiments.bench.sizes import Sizes
from graphut.topology import Topology

CPU = torch.device("cpu")


def check_heads(dim: int, heads: int) -> None:
    """Raise `ValueError`, with both numbers, if features do not divide into heads."""
    if heads < 1 or dim < 1 or dim % heads:
        raise ValueError(f"{dim} features do not divide into {heads} heads")


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionProblem:
    """One call over the edges of a batch of sentences; its numbers are always the same.

    Parameters
    ----------
    topology : Topology
        Who attends to whom.
    sizes : Sizes
        The sentences.
    dim, heads : int
        Features of a node, and the heads that they divide into.
    dtype : torch.dtype
        Of the features.
    device : torch.device
        Where they lie.
    fraction : float
        Share of the nodes that are active, in `(0, 1]`.
    biased : bool
        Whether there is an edge bias, `(E, H)`.
    forward_only : bool
        Leave out the backward pass.

    Raises
    ------
    ValueError
        If features do not divide into heads or `fraction` is out of range.

    Examples
    --------
    >>> from graphut.topology import Causal
    >>> problem = AttentionProblem(topology=Causal(), sizes=Sizes(1, 4, 4), dim=8, heads=2)
    >>> problem.edges, problem.flops, problem.kind
    (10, 1120, 'interval cpu float32 plain')
    """

    topology: Topology
    sizes: Sizes
    dim: int
    heads: int
    dtype: torch.dtype = torch.float32
    device: torch.device = CPU
    fraction: float = 1.0
    biased: bool = False
    forward_only: bool = False

    def __post_init__(self) -> None:
        check_heads(self.dim, self.heads)
        if not 0.0 < self.fraction <= 1.0:
            raise ValueError(f"the frontier must be a share in (0, 1], got {self.fraction}")

    @cached_property
    def layout(self) -> EdgeLayout:
        """The edges, on the device."""
        return self.topology.layout(self.sizes.lengths()).to(self.device)

    @cached_property
    def frontier(self) -> Tensor | None:
        """`(A,)` ids of the active nodes; `None` for all."""
        if self.fraction == 1.0:
            return None
        nodes = self.layout.num_dst
        active = max(1, round(self.fraction * nodes))
        drawn = torch.randperm(nodes, generator=torch.Generator().manual_seed(1))[:active]
        return drawn.sort().values.to(self.device)

    @property
    def rows(self) -> int:
        """Number of active nodes, `A`."""
        return self.layout.num_dst if self.frontier is None else self.frontier.numel()

    @cached_property
    def in_edges(self) -> tuple[Tensor, Tensor]:
        """`(row, source)` of each edge into an active node."""
        return self.layout.in_edges(self.frontier)[:2]

    @cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        """Query `(A, H, D)`, key and value `(N, H, D)`, and, if any, edge bias `(E, H)`."""
        by_node = (self.heads, self.dim // self.heads)
        nodes = self.layout.num_src
        shapes = [(self.rows, *by_node), (nodes, *by_node), (nodes, *by_node)]
        biases = [(self.layout.num_edges, self.heads)] if self.biased else []
        return tuple(self._normal(seed, *shape) for seed, shape in enumerate([*shapes, *biases]))

    @cached_property
    def upstream(self) -> Tensor:
        """The gradient of the output, `(A, H, D)`."""
        return self._normal(9, self.rows, self.heads, self.dim // self.heads)

    @property
    def edges(self) -> int:
        """Edges into active nodes."""
        return self.in_edges[0].numel()

    @property
    def flops(self) -> int:
        """Useful floating-point operations: per edge and feature 4 forward (the score and the
        sum), and 10 backward (the score again, and four products of the same size)."""
        return (4 if self.forward_only else 14) * self.edges * self.dim

    @property
    def kind(self) -> str:
        """The kind of call, as `backend="auto"` tells them apart."""
        return call_kind(self.layout, self.device.type, self.dtype, self.biased)

    def _normal(self, seed: int, *shape: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(shape, generator=generator).to(self.device, self.dtype)
