"""An error in place of second derivatives, for kernels that have none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def refuse_second_derivatives(
    what: str, grads: Sequence[Tensor | None], inputs: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """Return gradients that raise `RuntimeError` when they are differentiated.

    `what` has no second derivatives, and says so in the error. Each gradient depends on all
    `inputs`, those of the forward pass and the gradients of its outputs, and leads from each of
    them to the error. Torch's `once_differentiable` does not: a call of `torch.autograd.grad`
    leaves its error out, and returns wrong numbers.
    """
    if not torch.is_grad_enabled():
        return tuple(grads)
    return tuple(
        None if grad is None else _Refusal.apply(what, grad, *inputs)  # type: ignore[no-untyped-call]
        for grad in grads
    )


class _Refusal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, what: str, grad: Tensor, *inputs: Tensor | None) -> Tensor:
        ctx.what = what
        return grad.view_as(grad)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise RuntimeError(f"{ctx.what} has no second derivatives: use backend='dense'")
