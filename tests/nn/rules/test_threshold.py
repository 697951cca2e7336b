from __future__ import annotations

import pytest
import torch

from graphut.nn import Threshold
from graphut.nn.rules.base import RuleState, StepRows


def test_threshold_nothing_adds_up_while_a_row_waits() -> None:
    state = RuleState(Threshold(0.25), torch.zeros(3, 1))
    for step in range(1, 50):
        rows = torch.full((3, 1), float(step))
        p = torch.tensor([0.2499, 0.25 * (step > 30), 0.0])
        halts = state.update(StepRows(rows, rows, p, step, False))
        assert halts.tolist() == [False, step > 30, False]
        assert state.weight.tolist() == [0.0, float(step > 30), 0.0]
        assert not state.remainder.any() and not state.cost.any()
        assert torch.equal(state.out, rows)  # the state at halting


@pytest.mark.parametrize("value", [0.0, -1.0, 1.01, float("nan")])
def test_threshold_refuses_what_is_no_probability(value: float) -> None:
    with pytest.raises(ValueError, match=rf"threshold must lie in \(0, 1\], got {value}"):
        Threshold(value)
