from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphut.nn import Threshold
from graphut.nn.rules import ACT
from graphut.nn.rules.base import RuleState, StepRows

SINGLE = torch.float32


def test_act_sums_are_float32_beside_narrower_states() -> None:
    rows = torch.ones(1, 2, dtype=torch.bfloat16)
    act = RuleState(ACT(), rows)
    for step in range(1, 100):
        halts = act.update(StepRows(rows, rows, torch.tensor([0.005]), step, False))
        assert not halts  # a sum in bfloat16 would stand still below 0.99, or overshoot it
    assert act.memory[0].dtype == SINGLE and act.out.dtype == torch.bfloat16
    torch.testing.assert_close(act.memory[0], torch.tensor([0.495]))


def test_act_a_row_halts_when_its_sum_is_the_threshold() -> None:
    state, rows = RuleState(ACT(threshold=0.75), torch.zeros(2, 1)), torch.ones(2, 1)
    halts = []
    for step, p in enumerate(([0.25, 0.25], [0.5, 0.4375], [0.1, 0.0625]), 1):
        halts.append(state.update(StepRows(rows, rows, torch.tensor(p), step, False)).tolist())
        remainder = state.remainder
    assert halts == [[False, False], [True, False], [True, True]]
    assert remainder[1] == 0.3125


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("threshold", 0.0, r"threshold must lie in \(0, 1\], got 0.0"),
        ("threshold", 1.5, r"threshold must lie in \(0, 1\], got 1.5"),
        ("threshold", float("nan"), "got nan"),
        ("weighting", "mean", "weighting must be one of 'sum', 'ema', 'last', got 'mean'"),
        ("halt_from", "middle", "halt_from must be one of 'input', 'output', got 'middle'"),
        ("cost", "steps", "cost must be one of 'steps.remainder', 'remainder', got 'steps'"),
    ],
)
def test_act_refuses_a_wrong_setting(name: str, value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(ACT(), **{name: value})


@pytest.mark.parametrize("value", [0.0, -1.0, 1.01, float("nan")])
def test_threshold_refuses_what_is_no_probability(value: float) -> None:
    with pytest.raises(ValueError, match=rf"threshold must lie in \(0, 1\], got {value}"):
        Threshold(value)
