from __future__ import annotations

import pytest

from graphut.nn import ACT, AdaptiveRecurrence, HaltingRule, HaltingUnit, InputNoise, PonderNet
from graphut.nn.gpu.frontier import is_fusable
from graphut.nn.recurrence import loop_settings
from tests.nn.cases import build_case


@pytest.mark.parametrize(
    ("rule", "noise", "expected"),
    [
        (ACT(), None, True),
        (ACT(weighting="ema"), None, False),
        (PonderNet(), None, False),
        (ACT(), InputNoise(0.1, on="every_step"), False),
        (ACT(), InputNoise(0.1, on="first"), True),
    ],
)
def test_is_fusable_is_for_sums_of_act_without_noise_at_every_step(
    rule: HaltingRule, noise: InputNoise | None, expected: bool
) -> None:
    step = build_case().layer.step
    width = step.attention.in_feats[1]
    layer = AdaptiveRecurrence(step, HaltingUnit(width), rule=rule, noise=noise, inject_input=True)
    assert is_fusable(loop_settings(layer)) is expected
