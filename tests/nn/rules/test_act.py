from __future__ import annotations

import torch

from graphut.nn.rules import ACT
from graphut.nn.rules.base import RuleState, StepRows

SINGLE = torch.float32


def test_act_a_row_halts_when_its_sum_is_the_threshold() -> None:
    state, rows = RuleState(ACT(threshold=0.75), torch.zeros(2, 1)), torch.ones(2, 1)
    halts = []
    for step, p in enumerate(([0.25, 0.25], [0.5, 0.4375], [0.1, 0.0625]), 1):
        halts.append(state.update(StepRows(rows, rows, torch.tensor(p), step, False)).tolist())
        remainder = state.remainder
    assert halts == [[False, False], [True, False], [True, True]]
    assert remainder[1] == 0.3125
