from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphut.nn import Threshold
from graphut.nn.rules import ACT
from graphut.nn.rules.base import RuleState, StepRows

SINGLE = torch.float32
sequences = st.lists(
    st.lists(st.floats(0.0, 1.0), min_size=5, max_size=5), min_size=1, max_size=4
).map(lambda rows: torch.tensor(rows, dtype=torch.float64))
rules = st.builds(
    ACT,
    threshold=st.sampled_from([0.3, 0.99, 1.0]),
    weighting=st.sampled_from(["sum", "ema", "last"]),
    forced_remainder=st.booleans(),
)
caps = st.integers(1, 5)


def one_row(rule: ACT, cap: int, p: list[float], states: list[float]) -> tuple[float, int, float]:
    """Lines 6 and 7 of the definition, for one row: output, step and remainder."""
    out = c = 0.0
    for t, (p_t, x) in enumerate(zip(p, states, strict=True), start=1):
        reached, last = c + p_t >= rule.threshold, t == cap
        closes = reached or (last and rule.forced_remainder)
        w = 1 - c if closes else p_t
        out = {"sum": out + w * x, "ema": w * x + (1 - w) * out, "last": x}[rule.weighting]
        if reached or last:
            return out, t, 1 - c if closes else 0.0
        c += p_t
    raise AssertionError("a row halts at the cap at the latest")


def count(
    rule: ACT, cap: int, probabilities: Tensor, states: Tensor, packed: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """A tally of rows that halt one by one: packed as they go, or behind a mask."""
    rows = probabilities.shape[0]
    act = RuleState(rule, states[:, :1])
    nodes, active = torch.arange(rows), torch.ones(rows, dtype=torch.bool)
    out, remainder = probabilities.new_zeros(2, rows)
    steps = torch.zeros(rows, dtype=torch.int64)
    for t in range(1, cap + 1):
        state, p = states[nodes, t - 1 : t], probabilities[nodes, t - 1]
        rows_now = StepRows(state, state, p, t, t == cap)
        halts = act.update(rows_now, None if packed else active)
        remains = act.remainder
        done = nodes[halts]
        out[done], steps[done], remainder[done] = act.out[halts, 0], t, remains[halts]
        if packed:
            nodes = nodes[~halts]
            act.keep((~halts).nonzero()[:, 0])
        active = active & ~halts if not packed else active
    return (out if packed else act.out[:, 0]), steps, remainder


@pytest.mark.parametrize("packed", [True, False])
@given(sequences, rules, caps)
def test_act_rows_are_counted_as_if_alone(
    packed: bool, probabilities: Tensor, rule: ACT, cap: int
) -> None:
    states = torch.linspace(-2, 3, probabilities.numel()).double().view_as(probabilities)
    found = count(rule, cap, probabilities, states, packed)
    expected = [
        one_row(rule, cap, p, x)
        for p, x in zip(probabilities.tolist(), states.tolist(), strict=True)
    ]
    for column, values in zip(found, zip(*expected, strict=True), strict=True):
        torch.testing.assert_close(column, torch.tensor(values, dtype=column.dtype))


def test_act_a_row_halts_when_its_sum_is_the_threshold() -> None:
    rule = ACT(threshold=0.75)
    probabilities = torch.tensor([[0.25, 0.5, 0.1, 0.1, 0.1], [0.25, 0.4375, 0.0625, 0.0, 0.0]])
    _, steps, remainder = count(rule, 5, probabilities, probabilities, packed=True)
    assert steps.tolist() == [2, 3]
    assert remainder.tolist() == [0.75, 0.3125]


@given(sequences, caps)
def test_act_weights_sum_to_one_at_the_cap_too(probabilities: Tensor, cap: int) -> None:
    ones = torch.ones_like(probabilities, dtype=SINGLE)
    out, _, _ = count(ACT(), cap, probabilities.to(SINGLE), ones, packed=True)
    assert ((out - 1).abs() <= 2 * torch.finfo(SINGLE).eps).all()


def test_act_sums_are_float32_beside_narrower_states() -> None:
    rows = torch.ones(1, 2, dtype=torch.bfloat16)
    act = RuleState(ACT(), rows)
    for step in range(1, 100):
        halts = act.update(StepRows(rows, rows, torch.tensor([0.005]), step, False))
        assert not halts  # a sum in bfloat16 would stand still below 0.99, or overshoot it
    assert act.memory[0].dtype == SINGLE and act.out.dtype == torch.bfloat16
    torch.testing.assert_close(act.memory[0], torch.tensor([0.495]))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("threshold", 0.0, r"threshold must lie in \(0, 1\], got 0.0"),
        ("threshold", 1.5, r"threshold must lie in \(0, 1\], got 1.5"),
        ("threshold", float("nan"), "got nan"),
        ("weighting", "mean", "weighting must be one of 'sum', 'ema', 'last', got 'mean'"),
        ("halt_from", "middle", "halt_from must be one of 'input', 'output', got 'middle'"),
        ("cost", "steps", "cost must be one of 'steps.remainder', 'remainder', got 'steps'"),
    ],
)
def test_act_refuses_a_wrong_setting(name: str, value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(ACT(), **{name: value})


def test_threshold_nothing_adds_up_while_a_row_waits() -> None:
    state = RuleState(Threshold(0.25), torch.zeros(3, 1))
    for step in range(1, 50):
        rows = torch.full((3, 1), float(step))
        p = torch.tensor([0.2499, 0.25 * (step > 30), 0.0])
        halts = state.update(StepRows(rows, rows, p, step, False))
        assert halts.tolist() == [False, step > 30, False]
        assert state.weight.tolist() == [0.0, float(step > 30), 0.0]
        assert not state.remainder.any() and not state.cost.any()
        assert torch.equal(state.out, rows)  # the state at halting


@pytest.mark.parametrize("value", [0.0, -1.0, 1.01, float("nan")])
def test_threshold_refuses_what_is_no_probability(value: float) -> None:
    with pytest.raises(ValueError, match=rf"threshold must lie in \(0, 1\], got {value}"):
        Threshold(value)
