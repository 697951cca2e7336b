"""A recurrence honours the methods that a subclass or a module of its own overrides."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphut.nn import (
    AdaptiveRecurrence,
    EventDriven,
    FixedDepth,
    MessageAggregation,
    MultiHeadAttention,
    PositionwiseTransition,
    UniversalTransformerStep,
)
from graphut.topology import Causal
from tests.helpers import assert_same, covering, gradients, normal
from tests.nn.cases import randomised

#: Methods with results that others depend on, and those whose results are no features.
METHODS: dict[type, tuple[set[str], set[str]]] = {
    MultiHeadAttention: (
        {"forward", "project"},
        {"reset_parameters", "extra_repr", "fits_memory", "uses_triton", "_read", "_scaled"},
    ),
    UniversalTransformerStep: (
        {"forward", "project", "_add"},
        # `readout` is for the output. `value_shift` is used unless `project` is overridden.
        {"reset_parameters", "extra_repr", "readout", "value_shift", "_read"},
    ),
    PositionwiseTransition: ({"forward"}, set()),
    MessageAggregation: (
        {"forward", "project", "attend", "aggregate", "_messages"},
        {"reset_parameters", "extra_repr"},
    ),
}
SCHEDULE = torch.tensor([1, 3, 2, 4, 1])


class Scheduled(nn.Module):
    """Halt at the steps of the schedule; the output is the state at that step."""

    def forward(self, rows: Tensor, nodes: Tensor | None, step: int) -> Tensor:
        return (step >= (SCHEDULE if nodes is None else SCHEDULE[nodes])).double()


RULES: dict[str, dict[str, Any]] = {
    "frozen": {"halting": Scheduled(), "halted": "frozen", "step_signal": None},
    "copied": {"halting": Scheduled(), "halted": "copied"},
    "running": {"halting": Scheduled(), "halted": "running"},
    "fixed": {"rule": FixedDepth()},
    "waking": {"rule": EventDriven(), "step_signal": None},
}
BY = ("class", "module")
CASES = [(kind, name) for kind, (names, _) in METHODS.items() for name in sorted(names)]


@pytest.mark.parametrize("kind", METHODS)
def test_all_methods_are_listed(kind: type) -> None:
    written, others = METHODS[kind]
    methods = {name for name, x in vars(kind).items() if inspect.isfunction(x)}
    known = written | others
    assert {name for name in methods if not name.startswith("__")} <= known


def changed(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method whose result, or the first of its results, is another one."""

    @wraps(method)
    def other(*args: Any, **options: Any) -> Any:
        result = method(*args, **options)
        first = 1.5 * (result[0] if isinstance(result, tuple) else result) + 0.25
        return (first, *result[1:]) if isinstance(result, tuple) else first

    return other


def step_with(kind: type, name: str, by: str) -> UniversalTransformerStep:
    """Return a step with a module of class `kind` whose method `name` is overridden."""
    attention: Any = MultiHeadAttention(8, 2)
    if kind is MessageAggregation:
        attention = MessageAggregation(8, ["max"], attention=attention)
    step = randomised(UniversalTransformerStep(attention, PositionwiseTransition(8, 16)))
    [module] = [part for part in step.modules() if type(part) is kind]
    if by == "class":
        module.__class__ = type("Own", (kind,), {name: changed(getattr(kind, name))})
    else:
        setattr(module, name, changed(getattr(module, name)))
    return step


def by_masks(layer: AdaptiveRecurrence, steps: Tensor, graph: Any, feat: Tensor) -> Tensor:
    """Repeat calls of the step; a node that has halted keeps its state."""
    state, now = feat, feat
    out = torch.zeros_like(feat)
    for t in range(1, layer.max_steps + 1):
        signal = 0.0 if layer.step_signal is None else layer.step_signal(torch.tensor([t]))
        new = layer.step(graph, now + signal)
        active = (steps >= t)[:, None]
        out = torch.where((steps == t)[:, None], new, out)
        state = torch.where(active, new, now)
        now = new if layer.halted == "running" else state
    return out


@pytest.mark.parametrize(
    ("case", "rule", "by"), [[*row.values()] for row in covering(case=CASES, rule=[*RULES], by=BY)]
)
def test_recurrence_honours_overridden_methods(case: tuple[type, str], rule: str, by: str) -> None:
    kind, name = case
    step, graph, feat = step_with(kind, name, by), Causal().layout([3, 2]), normal(5, 8)
    options = {"max_steps": 4, "position_signal": None} | RULES[rule]
    layer = AdaptiveRecurrence(step, **options).double()
    steps = SCHEDULE if "halting" in options else torch.full((5,), 4)
    inputs = [feat, *layer.parameters()]
    expected = by_masks(layer, steps, graph, feat)
    found = layer(graph, feat)[0]
    assert_same([found, *gradients([found], inputs)], [expected, *gradients([expected], inputs)])
    with torch.no_grad():
        assert_same([layer(graph, feat)[0]], [expected])
