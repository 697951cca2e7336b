"""Errors for second derivatives of kernels that have none."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def refuse_second_derivatives(
    what: str, grads: Sequence[Tensor | None], inputs: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """Return the gradients `grads`, which now raise `RuntimeError` when they are differentiated.

    `what` names the function in the error, and the gradients depend on `inputs`. With torch's
    `once_differentiable`, `torch.autograd.grad` would raise no error and return wrong numbers.
    """
    if not torch.is_grad_enabled():
        return tuple(grads)
    return tuple(
        None if grad is None else _Refusal.apply(what, grad, *inputs)  # type: ignore[no-untyped-call]
        for grad in grads
    )


def with_first_derivatives(what: str, *tables: Tensor) -> tuple[Tensor, ...]:
    """Return the tables, whose gradients raise `RuntimeError` when they are differentiated."""
    views: tuple[Tensor, ...] = _Once.apply(what, *tables)  # type: ignore[no-untyped-call]
    return views


class _Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, what: str, *tables: Tensor) -> tuple[Tensor, ...]:
        ctx.what = what
        ctx.save_for_backward(*tables)
        return tuple(table.view_as(table) for table in tables)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, *refuse_second_derivatives(ctx.what, grads, ctx.saved_tensors)


class _Refusal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, what: str, grad: Tensor, *inputs: Tensor | None) -> Tensor:
        ctx.what = what
        return grad.view_as(grad)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise RuntimeError(f"{ctx.what} has no second derivatives: use backend='dense'")
