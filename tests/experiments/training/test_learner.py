from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from graphut.experiments.training import Outcome


def make(prediction: torch.Tensor, *costs: torch.Tensor) -> Outcome:
    ponders: Any = {str(i): SimpleNamespace(cost=cost) for i, cost in enumerate(costs)}
    return Outcome(prediction=prediction, right=torch.tensor(1), labels=2, ponders=ponders)


def test_the_loss_is_the_prediction_and_the_price_of_every_part() -> None:
    prediction, first, second = (torch.tensor(x, requires_grad=True) for x in (0.5, 3.0, 5.0))
    loss = make(prediction, first, second).loss(0.25)
    assert loss.item() == 0.5 + 0.25 * (3 + 5)
    gradients = torch.autograd.grad(loss, [prediction, first, second])
    assert [float(gradient) for gradient in gradients] == [1.0, 0.25, 0.25]
