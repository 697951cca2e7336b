"""The implementations of attention that a benchmark compares, and how each is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from graphut.experiments.bench.padding import PaddedBatch
from graphut.experiments.bench.workloads import AttentionProblem


class UnavailableError(Exception):
    """The reason, in a few words, why an implementation cannot take part here."""


@dataclass(frozen=True)
class Implementation:
    """A way to compute the attention of a problem.

    Everything that depends on the edges alone (masks, edge lists) is made before the timing, as
    a layout is.
    """

    attend: Callable[..., Tensor]  # from query, key, value (and edge bias) to the output
    # The places of queries and output, and of keys and values, in an implementation that pads.
    rows: PaddedBatch | None = None
    sources: PaddedBatch | None = None


Prepare = Callable[[AttentionProblem], Implementation]


class PreparedRun:
    """An implementation with tensors of its own, ready to be run again and again."""

    def __init__(self, problem: AttentionProblem, implementation: Implementation) -> None:
        self._attend, rows = implementation.attend, implementation.rows
        self._forward_only = problem.forward_only
        biases = [None] * (len(problem.inputs) - 3)
        self._padding = [rows, implementation.sources, implementation.sources, *biases]
        inputs = zip(problem.inputs, self._padding, strict=True)
        self._leaves = [
            (batch.pad(x) if batch else x).clone().requires_grad_(not problem.forward_only)
            for x, batch in inputs
        ]
        self._upstream = rows.pad(problem.upstream) if rows else problem.upstream

    def __call__(self) -> list[Tensor]:
        """Return the output and, unless forward only, the gradients, padded if the inputs are."""
        if self._forward_only:
            with torch.no_grad():
                return [self._attend(*self._leaves)]
        out = self._attend(*self._leaves)
        # An input that does not reach the output gets a gradient of zeros, which is then compared.
        gradients = torch.autograd.grad(out, self._leaves, self._upstream, materialize_grads=True)
        return [out.detach(), *gradients]

    def packed(self) -> list[Tensor]:
        """Run once, and return the results row after row."""
        padding = [self._padding[0], *self._padding]
        results = zip(self(), padding, strict=False)  # forward only: the output alone
        return [batch.unpad(x) if batch else x for x, batch in results]
