from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphut.nn import (
    ACT,
    Convergence,
    Decision,
    EventDriven,
    FixedDepth,
    Global,
    HaltingRule,
    PonderNet,
    Threshold,
    parse_rule,
)
from graphut.nn.rules.base import RuleState, StepRows
from tests.helpers import gradients, normal, refuses

shares = st.floats(1e-6, 1.0 - 1e-6)
weightings = st.sampled_from(["sum", "last"])
states_read = st.sampled_from(["input", "output"])
single = st.one_of(
    st.builds(ACT, shares, states_read, st.sampled_from(["sum", "ema", "last"]), st.booleans()),
    st.builds(PonderNet, shares, shares, st.floats(0.0, 10.0), states_read, weightings),
    st.builds(Threshold, shares, states_read),
    st.builds(Convergence, st.floats(1e-9, 10.0), st.integers(1, 9)),
    st.builds(FixedDepth, states_read),
    st.builds(EventDriven, st.floats(1e-9, 10.0), st.integers(0, 2**40)),
)


inner = single.filter(lambda rule: not isinstance(rule, EventDriven))


@given(st.one_of(single, st.builds(Global, inner)))
def test_parse_rule_reads_what_spec_writes(rule: HaltingRule) -> None:
    assert parse_rule(rule.spec()) == rule


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no halting rule ''; choose one of: .*ponder_net"),
        ("act:0.9", "'act' has no setting '0.9'; its settings: threshold, halt_from, weighting"),
        ("act:threshold=", "threshold of 'act' must be a number, got ''"),
        ("act:forced_remainder=no", "forced_remainder of 'act' must be true or false, got 'no'"),
        ("convergence:patience=1.5", "patience of 'convergence' must be a whole number, got '1.5'"),
        (
            "act:threshold=0.5,threshold=0.6",
            "'act' has the setting 'threshold' twice: give it once",
        ),
        ("global:" * 2000 + "act", "'global' cannot contain another 'global'"),
        ("event_driven:tol=-1", "tol must be 0, or at least 1e-15 and finite, got -1.0"),
        ("event_driven:max_rounds=-1", "max_rounds must be 0 or more, got -1"),
        ("global:event_driven", "Global cannot contain EventDriven"),
        *((f"threshold:threshold={x}", rf"in \(0, 1\], got {x}") for x in (0.0, -1.0, 1.01, "nan")),
        (
            "act:weighting=mean",
            "weighting must be .* 'last', 'ap-gcn', got 'mean'",
        ),
        ("act:halt_from=middle", "halt_from must be one of 'input', 'output', got 'middle'"),
        ("act:cost=steps", "cost must be one of 'steps.remainder', 'remainder', got 'steps'"),
        ("convergence:tol=0", "tol must be above 0, got 0.0"),
        ("convergence:patience=0", "patience must be at least 1"),
        ("ponder_net:prior=1", r"prior must lie in \(0, 1\), got 1.0"),
        ("ponder_net:beta=-1", "beta must be 0 or more, got -1.0"),
    ],
)
def test_parse_rule_says_what_is_wrong(text: str, words: str) -> None:
    refuses(words, parse_rule, text)


@dataclass(frozen=True)
class Column(HaltingRule):
    """A rule that returns a column, `(A, 1)`, by mistake."""

    def decide(self, memory: Any, measure: Tensor, rows: Any) -> Any:
        return Decision(measure[:, None] > 0.5), memory


def test_rule_state_refuses_a_decision_of_a_wrong_shape() -> None:
    state, rows = RuleState(Column(), torch.zeros(2, 4)), torch.zeros(2, 4)
    with pytest.raises(ValueError, match=r"Column.decide must .* \(2,\) bools, .*; got \(2, 1\)"):
        state.update(StepRows(rows, rows, torch.zeros(2), 1, False))
    refuses(r"Column.*cannot be written as text", Column().spec)


# Each rule.


def test_act_a_row_halts_when_its_sum_is_the_threshold() -> None:
    state, rows = RuleState(ACT(threshold=0.75), torch.zeros(2, 1)), torch.ones(2, 1)
    halts = []
    for step, p in enumerate(([0.25, 0.25], [0.5, 0.4375], [0.1, 0.0625]), 1):
        halts.append(state.update(StepRows(rows, rows, torch.tensor(p), step, False)).tolist())
        remainder = state.remainder
    assert halts == [[False, False], [True, False], [True, True]]
    assert remainder[1] == 0.3125


def test_event_driven_does_not_decide_without_a_graph() -> None:
    rows = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="only AdaptiveRecurrence can run it"):
        EventDriven().decide((), torch.zeros(2), StepRows(rows, rows, None, 1, False))


def test_convergence_the_change_is_relative_to_the_new_state() -> None:
    rule, (was, now) = Convergence(), normal(2, 5, 4).detach()
    state = RuleState(rule, was)
    change = rule.measure(state.memory, rows_of(now))
    torch.testing.assert_close(change, (now - was).norm(dim=1) / now.norm(dim=1))
    assert not rule.measure(state.memory, rows_of(was)).any()
    still = RuleState(rule, 0 * was)
    assert not rule.measure(still.memory, rows_of(0 * was)).any()  # and not 0 / 0


def test_convergence_what_is_no_number_is_not_calm() -> None:
    still, lost = torch.ones(2, 1), torch.tensor([[1.0], [torch.nan]])
    state = RuleState(Convergence(), still)
    assert state.update(rows_of(lost)).tolist() == [True, False]


def rows_of(after: Tensor) -> StepRows:
    return StepRows(after, after, None, 1, False)


@pytest.mark.parametrize("prior", [0.2, 1e-20])
def test_ponder_net_a_probability_of_0_or_1_has_a_finite_gradient(prior: float) -> None:
    p = torch.tensor([0.0, 1.0, 0.5, 1.0], requires_grad=True)
    state = RuleState(PonderNet(beta=1.0, prior=prior), torch.zeros(4, 1))
    cost = torch.zeros(4)
    for t in range(1, 4):
        rows = torch.ones(4, 1)
        halts = state.update(StepRows(rows, rows, p * (t < 3), t, t == 3))
        cost = torch.where(halts & (cost == 0), state.cost, cost)
    [slope] = gradients([state.out, cost], [p])
    assert bool(slope.isfinite().all()) and bool(cost.isfinite().all())
