"""The workloads of the benchmarks: sentences, one attention call, and the recurrence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.autotune import call_kind
from graphut.topology import Topology

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Sizes:
    """A batch of sentences whose lengths are drawn evenly between two bounds, always the same.

    Examples
    --------
    >>> str(Sizes.parse("64x10-60")), str(Sizes.parse("8x400"))
    ('64x10-60', '8x400')
    """

    sentences: int  # the number of sentences
    shortest: int  # the bounds of their lengths, both included
    longest: int

    def __post_init__(self) -> None:
        """Raise `ValueError` if the sizes are impossible."""
        if self.sentences < 1:
            raise ValueError(f"a batch needs a sentence at least, got {self.sentences}")
        if not 1 <= self.shortest <= self.longest:
            bounds = f"{self.shortest}-{self.longest}"
            raise ValueError(f"lengths must be 1 or more and ascend, got {bounds}")

    @classmethod
    def parse(cls, text: str) -> Sizes:
        """Read `64x10-60` (64 sentences of 10 to 60 tokens) or `8x400`."""
        sentences, cross, bounds = text.partition("x")
        if not (cross and sentences.isdecimal()):
            raise ValueError(f"{text!r} is no shape such as 64x10-60 or 8x400")
        return cls(int(sentences), *parse_bounds(bounds))

    def lengths(self) -> Tensor:
        """Draw the lengths, `(sentences,)` int64."""
        generator = torch.Generator().manual_seed(0)
        shape = (self.sentences,)
        return torch.randint(self.shortest, self.longest + 1, shape, generator=generator)

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        longest = f"-{self.longest}" if self.longest > self.shortest else ""
        return f"{self.sentences}x{self.shortest}{longest}"


def parse_bounds(text: str) -> tuple[int, int]:
    """Read `10-60`, or `400` where all lengths are the same.

    Examples
    --------
    >>> parse_bounds("10-60"), parse_bounds("400")
    ((10, 60), (400, 400))
    """
    if not re.fullmatch("[0-9]{1,9}(-[0-9]{1,9})?", text):
        raise ValueError(f"{text!r} is no range of lengths such as 10-60")
    low, _, high = text.partition("-")
    return int(low), int(high or low)


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """Attention over a batch of sentences."""

    topology: Topology
    sizes: Sizes  # of the sentences
    dim: int  # features of a node
    heads: int  # that the features divide into
    device: torch.device = CPU  # where the features lie

    def __post_init__(self) -> None:
        """Raise `ValueError` if features do not divide into heads."""
        if self.heads < 1 or self.dim < 1 or self.dim % self.heads:
            raise ValueError(f"{self.dim} features do not divide into {self.heads} heads")

    def to_dict(self) -> dict[str, Any]:
        """Return the problem for a JSON file."""
        return {
            "topology": str(self.topology),
            "sizes": str(self.sizes),
            "dim": self.dim,
            "heads": self.heads,
            "device": self.device.type,
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionProblem(Problem):
    """One attention call over the edges of a batch of sentences; its numbers are always the same.

    Examples
    --------
    >>> from graphut.topology import Causal
    >>> problem = AttentionProblem(topology=Causal(), sizes=Sizes(1, 4, 4), dim=8, heads=2)
    >>> problem.edges, problem.flops, problem.kind
    (10, 1120, 'interval cpu float32 plain')
    """

    dtype: torch.dtype = torch.float32  # of the features
    fraction: float = 1.0  # the share of the nodes that are active, in `(0, 1]`
    biased: bool = False  # whether there is an edge bias, `(E, H)`
    forward_only: bool = False  # leave out the backward pass

    def __post_init__(self) -> None:
        """Raise `ValueError` if the problem is impossible."""
        super().__post_init__()
        if not 0.0 < self.fraction <= 1.0:
            raise ValueError(f"the frontier must be a share in (0, 1], got {self.fraction}")

    @cached_property
    def layout(self) -> EdgeLayout:
        """The edges, on the device."""
        return self.topology.layout(self.sizes.lengths()).to(self.device)

    @cached_property
    def frontier(self) -> Tensor | None:
        """`(A,)` ids of the active nodes; `None` if all are active."""
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
        """Number of edges into active nodes."""
        return self.in_edges[0].numel()

    @property
    def flops(self) -> int:
        """Number of useful floating-point operations."""
        # An edge and feature: 4 forward (score and sum), 10 backward (score again, 4 products).
        return (4 if self.forward_only else 14) * self.edges * self.dim

    @property
    def kind(self) -> str:
        """The kind of call, as `backend="auto"` tells them apart."""
        return call_kind(self.layout, self.device.type, self.dtype, self.biased)

    def to_dict(self) -> dict[str, Any]:
        """Return the problem for a JSON file."""
        return {
            **super().to_dict(),
            "kind": self.kind,
            "nodes": self.layout.num_src,
            "edges": self.edges,
            "dtype": str(self.dtype).removeprefix("torch."),
            "frontier": self.fraction,
            "edge_bias": self.biased,
            "forward_only": self.forward_only,
            "flops": self.flops,
        }

    def _normal(self, seed: int, *shape: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(shape, generator=generator).to(self.device, self.dtype)


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelProblem(Problem):
    """A recurrence over a batch of sentences; its transition has four times `dim` features."""

    dim: int = 128
    heads: int = 8
    backend: str = "auto"  # of the recurrence's attention
    halting: bool = True  # whether nodes halt by the benchmark's schedule, or all at the cap

    def __post_init__(self) -> None:
        """Raise `ValueError` if the problem is impossible."""
        super().__post_init__()
        check_tokens_only(self.topology, "for which a padded model has no place")

    def to_dict(self) -> dict[str, Any]:
        """Return the problem for a JSON file."""
        halting = "schedule" if self.halting else "nobody"
        return {**super().to_dict(), "backend": self.backend, "halting": halting}


def check_tokens_only(topology: Topology, why: str) -> None:
    """Raise `ValueError` if a topology has nodes that are not tokens."""
    if topology.has_extra_nodes:
        raise ValueError(
            f"{topology} has nodes that are not tokens, {why}: choose another topology"
        )
