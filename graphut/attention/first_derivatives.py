"""Refusal of second derivatives by compiled kernels and DGL, which would be wrong or missing."""

import torch
from torch import Tensor


def refuse_second_derivatives(grad: Tensor | None = None) -> None:
    """Raise `RuntimeError` in a backward pass with `create_graph=True`; also a hook of a tensor.

    torch's `once_differentiable` raises only if a later pass reaches the gradients. With
    `torch.autograd.grad(outputs, inputs)`, that pass may take other paths and be wrong in silence.
    """
    if torch.is_grad_enabled():
        raise RuntimeError(
            "compiled kernels and DGL have no second derivatives: use backend='dense', or leave "
            "out create_graph=True"
        )
