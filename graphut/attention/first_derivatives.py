"""Gradients that raise an error when they are differentiated.

torch's `once_differentiable` raises none in `torch.autograd.grad(outputs, inputs)`, which only
follows paths to `inputs`, and returns wrong numbers if there are other paths.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

Backward = Callable[..., Any]


def once_differentiable(backward: Backward) -> Backward:
    """Let the gradients of a `torch.autograd.Function` raise if they are differentiated."""

    @wraps(backward)
    def first_backward(ctx: Any, *grads: Tensor) -> Any:
        with torch.no_grad():
            found = backward(ctx, *grads)
        if not torch.is_grad_enabled():
            return found
        found = found if isinstance(found, tuple) else (found,)
        inputs = [x for x in (*ctx.saved_tensors, *grads) if x is not None]
        return tuple(x if x is None else _Refusal.apply(x, *inputs) for x in found)  # type: ignore[no-untyped-call]

    return first_backward


def differentiable_once(*tables: Tensor) -> tuple[Tensor, ...]:
    """Return the tables; their gradients raise `RuntimeError` when they are differentiated."""
    views: tuple[Tensor, ...] = _Views.apply(*tables)  # type: ignore[no-untyped-call]
    return views


class _Views(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tables: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*tables)
        return tuple(table.view_as(table) for table in tables)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        return grads


class _Refusal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, grad: Tensor, *inputs: Tensor) -> Tensor:
        return grad.view_as(grad)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise RuntimeError(
            "compiled kernels and DGL have no second derivatives: use backend='dense'"
        )
