from typing import Any

import pytest
import torch
from torch import nn

from graphut.nn import ACT, HaltingUnit, PonderNet, ScheduledHalting
from graphut.nn.call import begin_call
from graphut.nn.gpu.settings import settings_of
from tests.nn.cases import FEATS, build_case


def settings(change: Any = None, max_steps: int = 3, **modes: Any) -> Any:
    case = build_case(**modes)
    if change is not None:
        change(case.layer)
    call = begin_call(case.layer, case.graph, case.feat, **case.arguments)
    call.max_steps = max_steps
    return settings_of(call)


@pytest.mark.parametrize(
    ("modes", "stores_all", "moves_values"),
    [
        ({"halted": "frozen", "norm": "pre"}, False, False),
        ({"halted": "copied"}, False, True),
        ({"halted": "copied", "step_signal": None}, False, False),
        ({"halted": "copied", "norm": "pre"}, True, False),
    ],
    ids=str,
)
def test_settings_say_which_nodes_are_stored(
    modes: dict[str, Any], stores_all: bool, moves_values: bool
) -> None:
    found = settings(**modes)
    assert (found.stores_all, found.moves_values) == (stores_all, moves_values)
    assert (found.low, found.activation) == (None, "gelu")
    schedule = ScheduledHalting(torch.ones(10, dtype=torch.int64), share=0.2)
    assert settings(halting=schedule, **modes).low == 0.2


def hook(module: str) -> Any:
    def register(layer: Any) -> None:
        layer.get_submodule(module).register_forward_hook(lambda *_: None)

    return register


REFUSED: dict[str, dict[str, Any]] = {
    "moving average": {"rule": ACT(weighting="ema")},
    "rule": {"rule": PonderNet()},
    "remainder": {"forced_remainder": False},
    "halting module that reads the output": {"halt_from": "output"},
    "stale keys": {"halted": "stale"},
    "halted nodes that run on": {"halted": "running"},
    "learned step signal": {"step_signal": "learned"},
    "no norm": {"norm": None},
    "convolution": {"transition": "sepconv"},
    "scaled by degree": {"scale_by_degree": True},
    "hook of a map": {"change": hook("step.attention.query")},
    "hook of the halting unit": {"change": hook("halting")},
    "hook of the activation": {"change": hook("step.transition.layers.1")},
    "halting unit with a norm": {"halting": HaltingUnit(FEATS, norm=True)},
    "halting module": {"halting": nn.Linear(FEATS, 1)},
    "schedule for other nodes": {"halting": ScheduledHalting(torch.tensor([1]))},
    "too many steps": {"max_steps": 2**28},
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_leave_other_recurrences_to_the_loop(name: str) -> None:
    assert settings(**REFUSED[name]) is None
