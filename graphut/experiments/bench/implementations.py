"""The implementations of attention that a benchmark compares: how each is run, and checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import hypot, inf

import torch
from torch import Tensor

from graphut.attention import edge_attention
from graphut.experiments.bench.padding import PaddedBatch
from graphut.experiments.bench.workloads import AttentionProblem

# The largest relative error, norm by norm, of a right result.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 2e-2}
# Up to this many scores the reference is the backend "dense", beyond it the backend "torch".
_SCORES = 1 << 22


class UnavailableError(Exception):
    """The reason, in a few words, why an implementation cannot take part here."""


@dataclass(frozen=True)
class Implementation:
    """A way to compute the attention of a problem.

    Everything that depends on the edges alone (masks, edge lists) is made before the timing, as
    a layout is. Masks are of truth values, as in most models; torch makes numbers of them in each
    call.
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


def reference(problem: AttentionProblem) -> list[Tensor]:
    """Compute output and gradients of a problem in float64."""
    scores = problem.rows * problem.layout.num_src * problem.heads
    backend = "dense" if scores <= _SCORES else "torch"
    leaves = [x.to(torch.float64, copy=True).requires_grad_() for x in problem.inputs]
    out = edge_attention(
        problem.layout,
        *leaves[:3],
        edge_bias=leaves[3] if problem.biased else None,
        frontier=problem.frontier,
        backend=backend,
    )
    if problem.forward_only:
        return [out.detach()]
    return [out.detach(), *torch.autograd.grad(out, leaves, problem.upstream.double())]


def largest_error(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the largest relative error of an output and of its gradients: difference by norm.

    The first of the tensors is the output. The others, its gradients, count as one vector: of one
    that is zero, as that of queries with one in-edge each, there is nothing but rounding. The error
    of a result that is not a number is infinite.

    Examples
    --------
    >>> one = torch.ones(4)
    >>> largest_error([one, 1.5 * one], [one, one])
    0.5
    """
    differences, norms = [], []
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape:
            raise ValueError(f"a result has shape {tuple(a.shape)}, not {tuple(b.shape)}")
        wide = b.double()
        differences.append((a.double() - wide).norm().item())
        norms.append(wide.norm().item())
    errors = [
        hypot(*differences[part]) / max(hypot(*norms[part]), 1e-12)
        for part in (slice(1), slice(1, None))
    ]
    return max(error if error == error else inf for error in errors)
