from typing import Any

import pytest
import torch

from graphut.nn import (
    ACT,
    AdaptiveRecurrence,
    FixedDepth,
    InputNoise,
    ScheduledHalting,
    dense_recurrence,
)
from tests.helpers import assert_same, covering, normal
from tests.nn.cases import BLOCK, FEATS, MODES, build_case, engine


@pytest.mark.parametrize("cap", [1, 3])
@pytest.mark.parametrize("modes", covering(**{m: MODES[m] for m in ("norm", "form", "transition")}))
def test_masked_without_halting_all_nodes_take_all_steps(modes: dict[str, Any], cap: int) -> None:
    case = build_case(**modes, max_steps=cap)
    case.layer.halting = None
    found = case.run(engine)
    assert_same(found, case.run(dense_recurrence))
    assert found[1].tolist() == [cap] * 10
    _, ponder = case.layer(case.graph, case.feat, **case.arguments)
    assert not ponder.remainder.any() and ponder.cost == 0


@pytest.mark.parametrize("noise", [None, InputNoise(0.3, on="every_step")], ids=["", "noise"])
@pytest.mark.parametrize("halted", ["copied", "frozen", "stale"])
def test_masked_fixed_depth_shows_sources_outside_a_block_as_halting_does(
    halted: str, noise: InputNoise | None
) -> None:
    step = build_case().layer.step
    options: dict[str, Any] = {"halted": halted, "noise": noise, "inject_input": True}
    never = ScheduledHalting(torch.tensor([3, 3]))
    layers = [
        AdaptiveRecurrence(step, never, rule=ACT(weighting="last"), max_steps=3, **options),
        AdaptiveRecurrence(step, rule=FixedDepth(), max_steps=3, **options),
    ]
    found = []
    for layer in layers:
        torch.manual_seed(0)
        found.append(layer.train()(BLOCK, normal(5, FEATS), positions=torch.arange(5))[0])
    assert_same(found[:1], found[1:])
