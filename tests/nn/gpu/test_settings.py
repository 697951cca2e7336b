from typing import Any

import pytest
import torch
from torch import nn

from graphut.nn import ACT, HaltingUnit, PonderNet, ScheduledHalting
from graphut.nn.gpu.settings import program_settings
from tests.nn.cases import FEATS, build_case


def settings(change: Any = None, *, halting: Any = None, rule: Any = None, **modes: Any) -> Any:
    layer, graph = (case := build_case(halting=halting, **modes)).layer, case.graph
    if change is not None:
        change(layer)
    rule = layer.rule if rule is None else rule
    size = {"halted": layer.halted, "max_steps": layer.max_steps, "learns": True}
    return program_settings(layer.step, rule, layer.halting, graph, **size)


@pytest.mark.parametrize(
    ("modes", "stored"),
    [
        ({"halted": "stale"}, "none"),
        ({"halted": "frozen"}, "halting"),
        ({"halted": "copied"}, "halting"),
        ({"halted": "copied", "norm": "pre"}, "all"),
    ],
    ids=str,
)
def test_program_settings_say_which_nodes_are_stored(modes: dict[str, Any], stored: str) -> None:
    found = settings(**modes)
    assert (found.stored, found.low, found.activation) == (stored, None, "gelu")
    schedule = ScheduledHalting(torch.ones(10, dtype=torch.int64), share=0.2)
    assert settings(halting=schedule, **modes).low == 0.2


def drop(layer: Any) -> None:
    layer.step.dropout.p = 0.1


def drop_in_evaluation(layer: Any) -> None:
    layer.eval()
    drop(layer)


def hook(module: str) -> Any:
    def register(layer: Any) -> None:
        layer.get_submodule(module).register_forward_hook(lambda *_: None)

    return register


REFUSED: dict[str, dict[str, Any]] = {
    "moving average": {"rule": ACT(weighting="ema")},
    "rule": {"rule": PonderNet()},
    "remainder": {"forced_remainder": False},
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
def test_program_settings_leave_other_recurrences_to_the_loop(name: str) -> None:
    assert settings(**REFUSED[name]) is None


def test_program_settings_without_dropout_in_evaluation() -> None:
    assert settings(drop_in_evaluation) is not None
