"""The implementations of attention that a benchmark compares, and how each is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from graphut.experiments.bench.workloads import AttentionProblem


class UnavailableError(Exception):
    """The reason, in a few words, why an implementation cannot take part here."""


class RowFormat(Protocol):
    """The form in which an implementation takes rows of nodes."""

    def pad(self, rows: Tensor) -> Tensor:
        """Return `(N, H, D)` in the implementation's form."""

    def unpad(self, table: Tensor) -> Tensor:
        """Return a tensor in the implementation's form as `(N, H, D)`."""


class Packed:
    """Row after row, the form of graphut."""

    def pad(self, rows: Tensor) -> Tensor:
        """Return the rows as they are."""
        return rows

    def unpad(self, table: Tensor) -> Tensor:
        """Return the rows as they are."""
        return table


PACKED = Packed()


@dataclass(frozen=True)
class Implementation:
    """A way to compute the attention of a problem.

    Everything that depends on the edges alone (masks, edge lists) is made before the timing, as
    a layout is.

    Parameters
    ----------
    attend : callable
        Takes query, key, value (and edge bias), and returns the output.
    rows, sources : RowFormat
        The forms of queries and output, and of keys and values.
    """

    attend: Callable[..., Tensor]
    rows: RowFormat = PACKED
    sources: RowFormat = PACKED


Prepare = Callable[[AttentionProblem], Implementation]


class PreparedRun:
    """An implementation with tensors of its own, ready to be run again and again.

    Parameters
    ----------
    problem : AttentionProblem
        The call to compute.
    implementation : Implementation
        The way to compute it.
    """

    def __init__(self, problem: AttentionProblem, implementation: Implementation) -> None:
        self._attend, rows = implementation.attend, implementation.rows
        self._forward_only = problem.forward_only
        biases = [PACKED] * (len(problem.inputs) - 3)
        self._formats = [rows, implementation.sources, implementation.sources, *biases]
        self._rows = rows
        pairs = zip(self._formats, problem.inputs, strict=True)
        self._leaves = [
            form.pad(x).clone().requires_grad_(not problem.forward_only) for form, x in pairs
        ]
        self._upstream = rows.pad(problem.upstream)

    def __call__(self) -> list[Tensor]:
        """Return the output and, unless forward only, the gradients, in the run's own form."""
        if self._forward_only:
            with torch.no_grad():
                return [self._attend(*self._leaves)]
        out = self._attend(*self._leaves)
        # An input that does not reach the output gets a gradient of zeros, which is then compared.
        gradients = torch.autograd.grad(out, self._leaves, self._upstream, materialize_grads=True)
        return [out.detach(), *gradients]

    def packed(self) -> list[Tensor]:
        """Run once, and return the results row after row."""
        forms = [self._rows, *self._formats]
        return [form.unpad(x) for form, x in zip(forms, self(), strict=False)]
