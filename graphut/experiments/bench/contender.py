"""Who takes part in a benchmark, and how each is run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from graphut.experiments.bench.problem import AttentionProblem


class UnavailableError(Exception):
    """Why a contender cannot take part here, in a few words."""


class Form(Protocol):
    """How a contender wants the rows of nodes to lie."""

    def spread(self, rows: Tensor) -> Tensor:
        """From `(N, H, D)` to the contender's form."""

    def back(self, table: Tensor) -> Tensor:
        """From the contender's form to `(N, H, D)`."""


class Packed:
    """Row after row, as graphut has them."""

    def spread(self, rows: Tensor) -> Tensor:
        return rows

    def back(self, table: Tensor) -> Tensor:
        return table


PACKED = Packed()


@dataclass(frozen=True)
class Contender:
    """A way to compute the attention of a problem.

    Everything that depends on the edges alone (masks, edge lists) is made before, as a layout
    is, and not timed.

    Parameters
    ----------
    attend : callable
        From query, key, value (and edge bias) to the output.
    rows, sources : Form
        How queries and the output, and keys and values, lie.
    """

    attend: Callable[..., Tensor]
    rows: Form = PACKED
    sources: Form = PACKED


Prepare = Callable[[AttentionProblem], Contender]


class Entry:
    """A contender with tensors of its own, ready to be run again and again.

    Parameters
    ----------
    problem : AttentionProblem
        What to compute.
    contender : Contender
        How.
    """

    def __init__(self, problem: AttentionProblem, contender: Contender) -> None:
        self.contender = contender
        self.forward_only = problem.forward_only
        query, key, value, *others = problem.inputs
        forms = [contender.rows, contender.sources, contender.sources, *(PACKED for _ in others)]
        self.forms: list[Form] = forms
        given = zip(forms, (query, key, value, *others), strict=True)
        self.leaves = [form.spread(x).clone() for form, x in given]
        for leaf in self.leaves:
            leaf.requires_grad_(not problem.forward_only)
        self.upstream = contender.rows.spread(problem.upstream)

    def __call__(self) -> list[Tensor]:
        """The output and, unless forward only, the gradients, in the contender's forms."""
        if self.forward_only:
            with torch.no_grad():
                return [self.contender.attend(*self.leaves)]
        out = self.contender.attend(*self.leaves)
        # What does not reach the output has a gradient of zeros, for the gate to judge.
        gradients = torch.autograd.grad(out, self.leaves, self.upstream, materialize_grads=True)
        return [out.detach(), *gradients]

    def packed(self) -> list[Tensor]:
        """One run, its results packed."""
        forms = [self.contender.rows, *self.forms]
        return [form.back(x) for form, x in zip(forms, self(), strict=False)]
