"""Gradients of compiled kernels and of DGL, which cannot be differentiated."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

Backward = Callable[..., Any]


def once_differentiable(backward: Backward) -> Backward:
    """Let the gradients of a `torch.autograd.Function` refuse `create_graph=True`.

    torch's decorator of this name raises only if a later pass reaches these gradients. With
    `torch.autograd.grad(outputs, inputs)`, that pass may take other paths and be wrong in silence.
    """

    @wraps(backward)
    def first_backward(ctx: Any, *grads: Tensor) -> Any:
        refuse_second_derivatives()
        return backward(ctx, *grads)

    return first_backward


def refuse_second_derivatives(grad: Tensor | None = None) -> None:
    """Raise `RuntimeError` in a backward pass with `create_graph=True`; also a hook of a tensor."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "compiled kernels and DGL have no second derivatives: use backend='dense', or leave "
            "out create_graph=True"
        )
