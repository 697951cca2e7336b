import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import graphut
from graphut.models import UniversalTransformer, UniversalTransformerConfig
from graphut.nn import (
    ACT,
    AdaptiveRecurrence,
    FixedDepth,
    HaltingUnit,
    InputNoise,
    MultiHeadAttention,
    PositionwiseTransition,
    Quantized,
    Threshold,
    UniversalTransformerStep,
)
from graphut.nn.plain_step import PlainStep
from graphut.nn.plan import Options
from graphut.nn.planning import plan_for
from graphut.topology import Complete
from tests.helpers import assert_same, gradients, normal, refuses

PACKAGE = str(Path(graphut.__file__).parent)
PRODUCTS = {"linear", "addmm", "mm", "matmul"}


def build(bias: float = 0.6, dim: int = 32, **options: Any) -> AdaptiveRecurrence:
    """Return a layer whose nodes take two steps with the default bias."""
    torch.manual_seed(0)
    step = UniversalTransformerStep(
        MultiHeadAttention(dim, 4), PositionwiseTransition(dim, 4 * dim, activation=nn.GELU())
    )
    halting = HaltingUnit(dim, gain=0.0, bias_init=bias)
    return AdaptiveRecurrence(step, halting, **{"max_steps": 8, **options})


def calls_of(run: Callable[[], Any]) -> tuple[list[str], int]:
    """Return the file of each call of a function of graphut, and the calls before a product."""
    run()
    files: list[str] = []
    before: list[int] = []

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            files.append(frame.f_code.co_filename)
        elif event == "c_call" and getattr(argument, "__name__", "") in PRODUCTS:
            before.append(len(files))

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return files, before[0]


def test_plan_leaves_little_to_do_before_the_first_product() -> None:
    layer, layout = build().eval(), Complete().layout([5])
    config = UniversalTransformerConfig(source_vocab=28, target_vocab=28, d_model=32)
    model = UniversalTransformer(config).eval()
    feat, positions = normal(5, 32, dtype=torch.float32), torch.arange(1, 6)
    runs = {
        "layer": (lambda: layer(layout, feat, positions=positions), 90, 13),
        "model": (lambda: model([[5, 3, 4], [2]], [[3, 4, 5], [2]]), 210, 20),
    }
    with torch.no_grad():
        for name, (run, most_calls, most_files) in runs.items():
            files, before = calls_of(run)
            assert before <= most_calls, name
            assert len({*files[:before]}) <= most_files, name


@pytest.mark.parametrize("grad", [False, True])
def test_plan_leaves_little_to_do_in_a_step(grad: bool) -> None:
    """Version 0.2 made 106 calls in a step, and 110 with gradients."""
    layout, feat, counts = Complete().layout([5]), normal(5, 32, dtype=torch.float32), []
    with torch.set_grad_enabled(grad):
        for bias in (0.6, -0.4):  # two and three steps
            layer = build(bias)
            counts.append(len(calls_of(lambda layer=layer: layer(layout, feat))[0]))
    assert counts[1] - counts[0] <= 63


def halve(module: nn.Module, args: Any, out: Tensor) -> Tensor:
    return out / 2


def replaced(layer: nn.Linear) -> nn.Linear:
    other = copy.deepcopy(layer)
    other.weight.data.neg_()
    return other


CHANGES: dict[str, Callable[[AdaptiveRecurrence], Any]] = {
    "max_steps": lambda x: setattr(x, "max_steps", 1),
    "rule": lambda x: setattr(x, "rule", ACT(0.5)),
    "fixed": lambda x: setattr(x, "rule", FixedDepth()),
    "evaluation_rule": lambda x: (setattr(x, "evaluation_rule", Threshold(0.9)), x.eval()),
    "eval": lambda x: x.eval(),
    "halted": lambda x: setattr(x, "halted", "running"),
    "inject_input": lambda x: setattr(x, "inject_input", True),
    "quantize": lambda x: setattr(x, "quantize", Quantized(2)),
    "noise": lambda x: setattr(x, "noise", InputNoise(0.5)),
    "step_signal": lambda x: setattr(x, "step_signal", None),
    "position_signal": lambda x: setattr(x, "position_signal", None),
    "halting": lambda x: setattr(x, "halting", HaltingUnit(32, gain=0.0, bias_init=-1.0)),
    "checkpoint": lambda x: setattr(x, "checkpoint_steps", True),
    "dropout": lambda x: setattr(x.step.dropout, "p", 0.5),
    "inner dropout": lambda x: setattr(x.step.transition.layers[2], "p", 0.5),
    "dropout in evaluation": lambda x: x.step.dropout.eval(),
    "attn_drop": lambda x: setattr(x.step.attention, "attn_drop", 0.5),
    "backend": lambda x: setattr(x.step.attention, "backend", "torch"),
    "map": lambda x: setattr(x.step.attention, "query", replaced(x.step.attention.query)),
    "weight": lambda x: setattr(
        x.step.attention.query, "weight", nn.Parameter(-x.step.attention.query.weight)
    ),
    "data": lambda x: x.step.attention.query.weight.data.neg_(),
    "hook of a map": lambda x: x.step.attention.output.register_forward_hook(halve),
    "hook of a norm": lambda x: x.step.transition_norm.register_forward_hook(halve),
    "hook of the activation": lambda x: x.step.transition.layers[1].register_forward_hook(halve),
    "hook of the step": lambda x: x.step.register_forward_hook(halve),
    "hook of the halting unit": lambda x: x.halting.register_forward_hook(halve),
    "hook of its map": lambda x: x.halting.linear.register_forward_hook(halve),
    "method": lambda x: setattr(
        x.step.attention, "project", lambda rows: 2 * x.step.attention.key_value(rows)
    ),
    "norm": lambda x: setattr(x.step.attention_norm, "eps", 0.5),
    "activation": lambda x: x.step.transition.layers.__setitem__(1, nn.Tanh()),
    "double": lambda x: x.double(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_plan_is_made_anew_when_the_layer_changes(change: str) -> None:
    """The layer, called before, equals a changed copy that was never called."""
    layer, layout = build(step_signal="sinusoidal", halted="copied"), Complete().layout([5, 3])
    other, positions = copy.deepcopy(layer), torch.tensor([1, 2, 3, 4, 5, 1, 2, 3])
    feat = normal(8, 32, dtype=torch.float32)
    before = layer(layout, feat, positions=positions)[0]
    layer(layout, feat, positions=positions)
    results = []
    for each in (layer, other):
        CHANGES[change](each)
        rows = feat.to(next(each.parameters()).dtype)
        edges = layout if each is layer else Complete().layout([5, 3])
        torch.manual_seed(1)
        out, ponder = each(edges, rows, positions=positions)
        results.append([out, *gradients([out, ponder.cost + 0 * out.sum()], [*each.parameters()])])
    assert_same(results[0], results[1], 1e-6)
    if change not in ("eval", "halted", "backend", "checkpoint", "dropout in evaluation", "double"):
        assert not torch.allclose(results[0][0], before, atol=1e-4)


def test_plan_is_kept_and_a_hook_that_is_removed_ends_it() -> None:
    layer, layout, feat = build(), Complete().layout([5]), normal(5, 32, dtype=torch.float32)

    def plan() -> Any:
        return plan_for(layer, layout, None, feat, Options())

    first = plan()
    assert plan() is first and isinstance(first.steps[0], PlainStep)
    handle = layer.step.attention.query.register_forward_hook(halve)
    assert not isinstance(plan().steps[0], PlainStep)
    handle.remove()
    assert isinstance(plan().steps[0], PlainStep)
    with torch.no_grad():
        assert plan() is not first
    feat = feat.double()
    refuses(r"torch.float64, but the layer is torch.float32", plan)
    assert plan_for(layer.double(), layout, None, feat, Options()).signals.dtype == feat.dtype


def test_plan_lets_global_hooks_see_each_module() -> None:
    layer, layout, feat = build(), Complete().layout([5]), normal(5, 32, dtype=torch.float32)
    layer(layout, feat)
    seen: list[nn.Module] = []
    handle = nn.modules.module.register_module_forward_hook(lambda each, *_: seen.append(each))
    try:
        layer(layout, feat)
    finally:
        handle.remove()
    assert {*layer.step.attention.children()} - {*seen} == set()


def test_plan_does_not_keep_the_layer() -> None:
    layer, layout = build(), Complete().layout([5])
    layer(layout, normal(5, 32, dtype=torch.float32))
    assert len(layout.plans) == 1
    del layer
    assert len(layout.plans) == 0
    assert len(copy.deepcopy(layout).plans) == 0
