from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphut.training import sequence_loss

OUTPUT: Any = SimpleNamespace(
    logits=torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 1.0]], requires_grad=True),
    encoder=SimpleNamespace(cost=torch.tensor(3.0, requires_grad=True)),
    decoder=SimpleNamespace(cost=torch.tensor(5.0, requires_grad=True)),
)
LABELS = torch.tensor([0, 1])


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_it_is_the_formula(smoothing: float) -> None:
    logs = OUTPUT.logits.log_softmax(-1)
    right = logs[torch.arange(2), LABELS]
    wanted = -((1 - smoothing) * right + smoothing * logs.mean(-1)).mean() + 0.25 * (3 + 5)
    loss = sequence_loss(OUTPUT, LABELS, ponder_weight=0.25, label_smoothing=smoothing)
    torch.testing.assert_close(loss, wanted)


def test_pondering_has_a_gradient() -> None:
    loss = sequence_loss(OUTPUT, LABELS, ponder_weight=0.25)
    gradients = torch.autograd.grad(loss, [OUTPUT.encoder.cost, OUTPUT.decoder.cost])
    assert [float(gradient) for gradient in gradients] == [0.25, 0.25]
