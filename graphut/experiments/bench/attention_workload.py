"""The workload of the attention benchmark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphut.attention import EdgeLayout, edge_attention
from graphut.experiments.bench.driver import CPU, sentence_lengths
from graphut.topology import parse

REFERENCE = "dense"
_DENSE_SCORES = 1 << 22  # beyond this number of scores the reference is the backend "torch"
Run = Callable[[], list[Tensor]]
"""A function that returns the output and the gradients of the inputs."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionWorkload:
    """One attention call over the edges of a batch of sentences, with fixed random tensors."""

    spec: str  # of the topology
    shape: str  # of the batch, such as 64x10-60
    dim: int  # features of a node
    heads: int
    device: torch.device = CPU
    dtype: torch.dtype = torch.float32
    fraction: float = 1.0  # share of the nodes that are active, in `(0, 1]`

    @property
    def sizes(self) -> str:
        """A title for a table: sizes, share of active nodes, data type."""
        active = "" if self.fraction == 1 else f", {self.fraction:.0%} active"
        name = str(self.dtype).removeprefix("torch.")
        dtype = "" if self.dtype == torch.float32 else f", {name}"
        return f"{self.shape}, {self.dim} features{active}{dtype}"

    def __str__(self) -> str:
        """Return a title for a table: the topology and the `sizes`."""
        return f"{self.spec}, {self.sizes}"

    @cached_property
    def layout(self) -> EdgeLayout:
        """The edges of the batch, on the device of the workload."""
        return parse(self.spec).layout(sentence_lengths(self.shape)).to(self.device)

    @cached_property
    def frontier(self) -> Tensor | None:
        """Ids of the active nodes (those with a query), `(A,)`; `None` if all nodes are active."""
        if self.fraction == 1.0:
            return None
        nodes = self.layout.num_dst
        active = max(1, round(self.fraction * nodes))
        drawn = torch.randperm(nodes, generator=torch.Generator().manual_seed(1))[:active]
        return drawn.sort().values.to(self.device)

    @cached_property
    def in_edges(self) -> tuple[Tensor, Tensor]:
        """The edges into active nodes: row of the query tensor, `(E,)`, and source node, `(E,)`."""
        return self.layout.in_edges(self.frontier)[:2]

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """Query `(A, H, D)`, key and value `(N, H, D)`, and gradient of the output."""
        nodes = self.layout.num_src
        rows = self.layout.num_dst if self.frontier is None else self.frontier.numel()
        return tuple(
            torch.randn(
                n, self.heads, self.dim // self.heads, generator=torch.Generator().manual_seed(seed)
            ).to(self.device, self.dtype)
            for seed, n in enumerate([rows, nodes, nodes, rows])
        )

    @property
    def flops(self) -> int:
        """The number of floating-point operations of the call, forward (4) and backward (10)."""
        return 14 * self.in_edges[0].numel() * self.dim

    def prepare(self, backend: str, dtype: torch.dtype | None = None) -> Prepared:
        """Prepare the call for timing, with a backend of graphut and optionally another `dtype`."""
        options: dict[str, Any] = {"frontier": self.frontier, "backend": backend}
        attend = partial(edge_attention, self.layout, **options)
        *inputs, upstream = (x.to(dtype) for x in self.tensors)
        return Prepared(gradient_run(attend, inputs, upstream))

    def reference(self) -> list[Tensor]:
        """Return the output and the gradients of query, key and value, computed in float64."""
        scores = len(self.tensors[0]) * self.layout.num_src * self.heads
        return self.prepare(REFERENCE if scores <= _DENSE_SCORES else "torch", torch.double).run()


class Prepared(NamedTuple):
    """A call that is ready to be timed: its masks, edge lists and layouts already exist."""

    run: Run
    unpad: Callable[[list[Tensor]], list[Tensor]] = list  # converts results to packed rows


Prepare = Callable[[AttentionWorkload], Prepared]


def gradient_run(
    call: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    upstream: Tensor,
    weights: Sequence[Tensor] = (),
) -> Run:
    """Return a function that returns the output of `call`, and gradients of inputs and weights."""
    leaves = [x.clone().requires_grad_() for x in inputs]

    def run() -> list[Tensor]:
        out = call(*leaves)
        # An input that does not affect the output gets a zero gradient.
        needed = [*leaves, *weights]
        gradients = torch.autograd.grad(out, needed, upstream, materialize_grads=True)
        return [out.detach(), *gradients]

    return run
