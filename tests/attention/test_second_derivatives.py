from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.attention.second_derivatives import refuse_second_derivatives


class Square(torch.autograd.Function):
    """A square whose gradient is made of numbers that autograd does not see."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, other: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.square() + other

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        [x] = ctx.saved_tensors
        with torch.no_grad():
            found = 2 * x * grad
        return refuse_second_derivatives("the square", [found, None], [x, grad])


def test_refuse_second_derivatives_leaves_the_first_as_they_are() -> None:
    x = torch.tensor([3.0], requires_grad=True)
    for create_graph in (False, True):
        [slope] = torch.autograd.grad(Square.apply(x, x.detach()), x, create_graph=create_graph)
        assert slope.item() == 6.0


def test_refuse_second_derivatives_raises_whichever_way_one_asks() -> None:
    x = torch.tensor([3.0], requires_grad=True)
    [slope] = torch.autograd.grad(Square.apply(2 * x, x.detach()), x, create_graph=True)
    with pytest.raises(RuntimeError, match="the square has no second derivatives: use backend="):
        torch.autograd.grad(slope + x, x, retain_graph=True)
    with pytest.raises(RuntimeError, match="the square has no second derivatives"):
        slope.backward()
