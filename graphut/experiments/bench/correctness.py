"""The check before the timing: results are compared with a float64 reference."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphut.attention import edge_attention
from graphut.experiments.bench.workloads import AttentionProblem

# The largest relative error, norm by norm, of a right result.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 2e-2}
# Up to this many scores the reference is the backend "dense", beyond it the backend "torch".
_SCORES = 1 << 22


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
    """Return the largest relative error of some tensors: norm of the difference by norm.

    The error of a result that is not a number is infinite.

    Examples
    --------
    >>> one = torch.ones(4)
    >>> largest_error([one, 1.5 * one], [one, one])
    0.5
    """
    errors = []
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape:
            raise ValueError(f"a result has shape {tuple(a.shape)}, not {tuple(b.shape)}")
        wide = b.double()
        errors.append(((a.double() - wide).norm() / wide.norm().clamp_min(1e-12)).item())
    return max(error if error == error else float("inf") for error in errors)
