import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import graphut
from graphut.nn import (
    AdaptiveConv,
    AdaptiveRecurrence,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    SinusoidalSignal,
    UniversalTransformerStep,
)
from graphut.topology import Complete
from tests.helpers import assert_same, gradients, normal


def build() -> AdaptiveRecurrence:
    """Return a layer whose nodes take two steps."""
    torch.manual_seed(0)
    step = UniversalTransformerStep(
        MultiHeadAttention(32, 4), PositionwiseTransition(32, 128, activation=nn.GELU())
    )
    return AdaptiveRecurrence(step, HaltingUnit(32, gain=0.0, bias_init=0.6), max_steps=8)


def halve(module: nn.Module, args: Any, out: Tensor) -> Tensor:
    return out / 2


class Doubled(SinusoidalSignal):
    def forward(self, coordinates: Tensor) -> Tensor:
        return 2 * super().forward(coordinates)


def replaced(layer: nn.Linear) -> nn.Linear:
    other = copy.deepcopy(layer)
    other.weight.data.neg_()
    return other


def with_state(layer: nn.Linear) -> None:
    """Replace the dictionary of parameters, as unpickling does."""
    layer.__setstate__({**vars(layer), "_parameters": dict(replaced(layer)._parameters)})


CHANGES: dict[str, Callable[[AdaptiveRecurrence], Any]] = {
    "count_from": lambda x: setattr(x.position_signal, "count_from", 7),
    "count_from of steps": lambda x: setattr(x.step_signal, "count_from", 7),
    "forward of a signal": lambda x: setattr(
        x.position_signal, "forward", lambda rows: torch.ones(len(rows), 32)
    ),
    "class of a signal": lambda x: setattr(x, "step_signal", Doubled(32)),
    "hook of a signal": lambda x: x.step_signal.register_forward_hook(halve),
    "dropout": lambda x: setattr(x.step.dropout, "p", 0.5),
    "weight": lambda x: setattr(
        x.step.attention.query, "weight", nn.Parameter(-x.step.attention.query.weight)
    ),
    "parameters": lambda x: with_state(x.step.attention.query),
    "hook of the step": lambda x: x.step.register_forward_hook(halve),
    "hook of attention": lambda x: x.step.attention.register_forward_hook(halve),
    "hook of a map": lambda x: x.step.attention.output.register_forward_hook(halve),
    "hook of a norm": lambda x: x.step.transition_norm.register_forward_hook(halve),
    "hook of the transition": lambda x: x.step.transition.register_forward_hook(halve),
    "hook of its layers": lambda x: x.step.transition.layers.register_forward_hook(halve),
    "hook of the activation": lambda x: x.step.transition.layers[1].register_forward_hook(halve),
    "hook of the halting unit": lambda x: x.halting.register_forward_hook(halve),
    "hook of its map": lambda x: x.halting.linear.register_forward_hook(halve),
    "method": lambda x: setattr(
        x.step.attention, "project", lambda rows: 2 * x.step.attention.key_value(rows)
    ),
    "norm": lambda x: setattr(x.step.attention_norm, "eps", 0.5),
    "activation": lambda x: x.step.transition.layers.__setitem__(1, nn.Tanh()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_call_reads_each_setting_anew(change: str) -> None:
    """The layer, called before, equals a changed copy that was never called."""
    layer, layout = build(), Complete().layout([5, 3])
    other, positions = copy.deepcopy(layer), torch.tensor([1, 2, 3, 4, 5, 1, 2, 3])
    feat, results = normal(8, 32, dtype=torch.float32), []
    before = layer(layout, feat, positions=positions)[0]
    for each, edges in ((layer, layout), (other, Complete().layout([5, 3]))):
        CHANGES[change](each)
        torch.manual_seed(1)
        out, ponder = each(edges, feat, positions=positions)
        results.append([out, *gradients([out, ponder.cost + 0 * out.sum()], [*each.parameters()])])
    assert_same(results[0], results[1], 1e-6)
    assert not torch.allclose(results[0][0], before, atol=1e-4)


def test_call_lets_global_hooks_see_each_module() -> None:
    layer, seen = build(), list[nn.Module]()
    handle = nn.modules.module.register_module_forward_hook(lambda each, *_: seen.append(each))
    try:
        layer(Complete().layout([5]), normal(5, 32, dtype=torch.float32))
    finally:
        handle.remove()
    inner = [layer.halting, layer.step.attention, *layer.step.attention.children()]
    assert {*inner, *layer.step.transition.layers} <= {*seen}


def functions_of(call: Callable[[], Any]) -> tuple[list[tuple[str, str]], int, set[Any]]:
    """Return file and name of each function of graphut that the third of three calls enters.

    Also return how many of them are entered before the first matrix product, and the pairs of files
    of which one calls the other in the second step.
    """
    entered, before, package = [], [], str(Path(graphut.__file__).parent)
    borders, steps = set(), 0

    def note(frame: Any, event: str, function: Any) -> None:
        nonlocal steps
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(package):
            entered.append((code.co_filename, f"{code.co_name}, line {code.co_firstlineno}"))
            steps += code.co_name == "any_active"
            while not (frame := frame.f_back).f_code.co_filename.startswith((package, __file__)):
                pass
            if steps == 2 and frame.f_code.co_filename != code.co_filename:
                borders.add((frame.f_code.co_filename, code.co_filename))
        elif event == "c_call" and function.__name__ == "linear":
            before.append(len(entered))

    call(), call()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered, before[0], borders


def test_call_enters_few_functions() -> None:
    """A reader follows a call through this many functions and files."""
    x, edge_index = torch.randn(100, 16), torch.randint(100, (2, 400))
    for heads in (None, 4):
        conv = AdaptiveConv(16, 32, heads, max_steps=8)
        entered, _, borders = functions_of(lambda: conv(x, edge_index))  # noqa: B023
        assert len({*entered}) <= 58 and len({file for file, _ in entered}) <= 11
        assert 0 < len(borders) <= 5
    layer, layout, feat = build(), Complete().layout([5]), torch.randn(5, 32)
    positions = torch.arange(1, 6)
    entered, before, borders = functions_of(lambda: layer(layout, feat, positions=positions))
    assert len({*entered}) <= 59 and len({file for file, _ in entered}) <= 11
    assert before <= 36 and len({file for file, _ in entered[:before]}) <= 11
    assert 0 < len(borders) <= 5
