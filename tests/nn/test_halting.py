import pytest
import torch

from graphut.nn import (
    HaltingUnit,
    ScheduledHalting,
)
from tests.helpers import gradients, normal, refuses
from tests.nn.cases import build_case, engine, randomised


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_halting_unit_equals_its_formula_in_float32_or_wider(
    dtype: torch.dtype, norm: bool
) -> None:
    unit, rows = randomised(HaltingUnit(6, norm=norm)).to(dtype), 3 * normal(5, 6).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = unit(rows)
    wide = torch.promote_types(dtype, torch.float32)
    unit, rows = unit.to(wide), rows.to(wide)
    assert found.dtype == wide and torch.equal(found, unit(rows))
    seen = unit.norm(rows) if norm else rows
    logit = (seen * unit.linear.weight).sum(1) + unit.linear.bias
    torch.testing.assert_close(found, 1 / (1 + torch.exp(-logit)))


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_halting_units_of_a_step_equal_a_single_unit(dtype: torch.dtype, norm: bool) -> None:
    units, rows = randomised(HaltingUnit(6, norm=norm, units=3)).to(dtype), normal(5, 6).to(dtype)
    single = HaltingUnit(6, norm=norm).to(dtype)
    weights = units.state_dict()
    weights |= {name: weights[name][1:2] for name in ("linear.weight", "linear.bias")}
    single.load_state_dict(weights)
    torch.testing.assert_close(units(rows, step=2), single(rows))
    assert torch.equal(units(rows, step=9), units(rows, step=3))


@pytest.mark.parametrize("bias", [-1.0, 2.0])
def test_halting_unit_bias_init(bias: float) -> None:
    unit = HaltingUnit(6, bias_init=bias)
    unit.linear.bias.data.zero_()
    before = unit.linear.weight.clone()
    unit.reset_parameters()
    assert unit.linear.bias.item() == bias
    assert not torch.equal(unit.linear.weight, before)
    assert list(unit.state_dict()) == ["linear.weight", "linear.bias"]
    normed = randomised(HaltingUnit(6, norm=True))
    normed.reset_parameters()
    assert torch.equal(normed.norm.weight, torch.ones(6).double())
    assert f"bias_init={bias}" in repr(unit)


def test_halting_unit_with_zero_gain_starts_with_equal_probabilities() -> None:
    unit, rows = HaltingUnit(6, bias_init=-2.0, gain=0.0), normal(5, 6).float()
    assert torch.equal(unit(rows), torch.full((5,), -2.0).sigmoid())
    [gradient] = gradients([unit(rows)], [unit.linear.weight])
    assert bool((gradient != 0).all())


def test_scheduled_halting_halts_each_node_at_its_step() -> None:
    halting = ScheduledHalting(torch.tensor([2, 1, 4]), share=0.1)
    rows = torch.zeros(3, 6)
    halted = torch.tensor([[0, 1, 0], [1, 1, 0], [1, 1, 0], [1, 1, 1]]).bool()
    for step, expected in enumerate(halted, start=1):
        torch.testing.assert_close(halting(rows, None, step), torch.where(expected, 1.0, 0.1))
    some = halting(rows[:2], torch.tensor([0, 2]), 3)
    torch.testing.assert_close(some, torch.tensor([1, 0.1]))


def test_scheduled_halting_is_saved_and_refuses_other_numbers_of_nodes() -> None:
    halting = ScheduledHalting(torch.tensor([2, 1]))
    assert halting.bfloat16()(torch.zeros(2, 6).bfloat16(), None, 1).dtype == torch.float32
    assert list(halting.state_dict()) == ["steps"]
    refuses("the schedule is for 2 nodes, but there are 3", halting, torch.zeros(3, 6))
    refuses("steps must be int64, got torch.float32", ScheduledHalting, torch.tensor([1.5]))
    refuses("step 1 or later, got step -3", ScheduledHalting, torch.tensor([4, -3]))


def test_halting_a_schedule_of_many_steps_is_followed_exactly() -> None:
    case = build_case(lengths=[2], max_steps=200, halting=ScheduledHalting(torch.tensor([3, 200])))
    assert engine(case.layer, case.graph, case.feat)[1].tolist() == [3, 200]
