"""Presets compared with the halting loops of the published code."""

import pytest
import torch
from torch import Tensor, nn

from graphut.attention import as_layout
from graphut.nn import (
    HALTING_PRESETS,
    AdaptiveRecurrence,
    HaltingUnit,
    LearnedSignal,
    MultiHeadAttention,
    PositionwiseTransition,
    SinusoidalSignal,
    UniversalTransformerStep,
)
from graphut.nn.step import Store, read_cross
from tests.helpers import assert_same, gradients
from tests.nn.cases import FEATS, HEADS, Case, build_case, build_step, randomised, run_step, signal


def signals(case: Case, t: int) -> Tensor:
    """Return the signals of step `t`: counted from 0, with learned step signals if any."""
    step = signal(t - 1, FEATS)
    if isinstance(case.layer.step_signal, LearnedSignal):
        step = case.layer.step_signal.weight[t - 1]
    return torch.stack([signal(float(pos) - 1, FEATS) + step for pos in case.positions])


def halting_probability_of(case: Case, state: Tensor) -> Tensor:
    unit = case.layer.halting
    seen = state if unit.norm is None else unit.norm(state)
    return torch.sigmoid(seen @ unit.linear.weight[0] + unit.linear.bias[0])


def tensor2tensor_act(case: Case) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Repeat the step as `universal_transformer_act` does: all states change at every step."""
    layer, state = case.layer, case.feat
    halting_probability, remainders, n_updates = torch.zeros(3, len(state)).double()
    previous_state = torch.zeros_like(state)
    step = 0
    while bool(
        ((halting_probability < layer.rule.threshold) & (n_updates < layer.max_steps)).any()
    ):
        step += 1
        state = state + signals(case, step)
        p = halting_probability_of(case, state)
        still_running = (halting_probability < 1.0).double()
        total = halting_probability + p * still_running
        new_halted = (total > layer.rule.threshold).double() * still_running
        still_running = (total <= layer.rule.threshold).double() * still_running
        halting_probability = halting_probability + p * still_running
        remainders = remainders + new_halted * (1 - halting_probability)
        halting_probability = halting_probability + new_halted * remainders
        n_updates = n_updates + still_running + new_halted
        update_weights = (p * still_running + new_halted * remainders)[:, None]
        transformed_state = run_step(layer.step, case.graph, state, case.cross)
        previous_state = transformed_state * update_weights + previous_state * (1 - update_weights)
        state = transformed_state
    cost = (n_updates + remainders).mean()
    return layer.step.readout(previous_state), n_updates.long(), remainders, cost


def dgl_tutorial_act(case: Case) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Repeat the step as `act.py` does: inactive nodes keep their keys and values."""
    layer, x = case.layer, case.feat
    edges, encoded = read_cross(layer.step.cross_attention, case.cross)
    layout = as_layout(case.graph)
    store = Store(layout, cross_layout=edges, encoded=encoded)
    s, r, sum_p = torch.zeros_like(x), torch.ones(len(x)).double(), torch.zeros(len(x)).double()
    active, steps = torch.ones(len(x), dtype=torch.bool), torch.zeros(len(x), dtype=torch.int64)
    memory = layer.step.project(x, layout)
    for step in range(layer.max_steps):
        if not active.any():
            break
        end = step == layer.max_steps - 1
        y = x + signals(case, step + 1)
        memory = torch.where(active[:, None], layer.step.project(y, layout), memory)
        store.write(None, memory)
        x = torch.where(active[:, None], layer.step(store, y), x)
        p = halting_probability_of(case, x)
        total = sum_p + p
        goes_on = (total < layer.rule.threshold) & (not end)
        new_r = torch.where(goes_on, 1 - total, r)
        weight = torch.where(goes_on, p, new_r)
        s = torch.where(active[:, None], s + weight[:, None] * x, s)
        r, sum_p = torch.where(active, new_r, r), torch.where(active, total, sum_p)
        steps = steps + active
        active = active & goes_on
    return layer.step.readout(s), steps, r, r.mean()


LOOPS = {"tensor2tensor": tensor2tensor_act, "dgl_tutorial": dgl_tutorial_act}


@pytest.mark.parametrize("cap", [1, 3, 6])
@pytest.mark.parametrize("form", ["encoder", "decoder"])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("preset", LOOPS)
def test_preset_equals_the_halting_loop_of_its_source(
    preset: str, norm: str, form: str, cap: int
) -> None:
    settings = HALTING_PRESETS[preset]["recurrence"]
    case = build_case(norm=norm, form=form, topology="window", max_steps=cap, **settings)
    if preset == "dgl_tutorial":
        unit = HaltingUnit(FEATS, **HALTING_PRESETS[preset]["halting"])
        case.layer.halting = randomised(unit, seed=58)
        unit.linear.bias.data.fill_(-0.3)
    out, ponder = case.layer(case.graph, case.feat, **case.arguments)
    steps, remainder, cost = ponder.steps, ponder.remainder, ponder.cost
    expected = LOOPS[preset](case)
    assert_same([out, steps, remainder, cost], expected)
    truth = [expected[0], expected[3]]
    assert_same(gradients([out, cost], case.inputs), gradients(truth, case.inputs))
    assert cap < 6 or len(steps.unique()) > 1  # nodes halt at different steps


def test_preset_of_the_paper_is_the_default() -> None:
    assert repr(layer_of("paper")) == repr(AdaptiveRecurrence(build_step(), HaltingUnit(FEATS)))


def test_preset_settings_reach_the_layers() -> None:
    for preset in ("tensor2tensor", "dgl_tutorial"):
        layer, t2t = layer_of(preset), preset == "tensor2tensor"
        assert layer.step.norm == "pre" and layer.halting.bias_init == 1.0
        assert layer.position_signal.count_from == 0
        attention = layer.step.attention
        assert {attention.query.bias, attention.key_value.bias, attention.output.bias} == {None}
        assert layer.step.output_norm.eps == (1e-6 if t2t else 1e-5)
        assert isinstance(layer.step_signal, LearnedSignal if t2t else SinusoidalSignal)


def layer_of(preset: str) -> AdaptiveRecurrence:
    parts = HALTING_PRESETS[preset]
    attention = MultiHeadAttention(FEATS, HEADS, **parts["attention"])
    transition = PositionwiseTransition(FEATS, 12, activation=nn.GELU())
    step = UniversalTransformerStep(attention, transition, **parts["step"])
    return AdaptiveRecurrence(step, HaltingUnit(FEATS, **parts["halting"]), **parts["recurrence"])
