from __future__ import annotations

import torch
from torch import nn

from graphut.nn import AdaptiveRecurrence, Convergence
from graphut.nn.rules.base import RuleState, StepRows
from tests.helpers import normal
from tests.nn.cases import FEATS, build_step


def test_convergence_the_change_is_relative_to_the_new_state() -> None:
    rule, (was, now) = Convergence(), normal(2, 5, 4).detach()
    state = RuleState(rule, was)
    change = rule.measure(state.memory, rows_of(now))
    torch.testing.assert_close(change, (now - was).norm(dim=1) / now.norm(dim=1))
    assert not rule.measure(state.memory, rows_of(was)).any()
    still = RuleState(rule, 0 * was)
    assert not rule.measure(still.memory, rows_of(0 * was)).any()  # and not 0 / 0


def test_convergence_parameters_of_a_readout_are_not_in_the_state_dict() -> None:
    layer = AdaptiveRecurrence(build_step(), rule=Convergence(readout=nn.Linear(FEATS, 2).double()))
    assert "readout" not in " ".join(layer.state_dict())


def test_convergence_a_class_that_a_readout_rules_out_changes_nothing() -> None:
    was, now = normal(2, 5, 4).detach()
    ruled_out = torch.tensor([[0.0, 0.0, 0.0, -torch.inf]])
    found = [
        Convergence(readout=readout).measure((was,), rows_of(now))
        for readout in (lambda x: x + ruled_out, lambda x: x[:, :3])
    ]
    torch.testing.assert_close(*found)


def test_convergence_what_is_no_number_is_not_calm() -> None:
    still, lost = torch.ones(2, 1), torch.tensor([[1.0], [torch.nan]])
    state = RuleState(Convergence(), still)
    assert state.update(rows_of(lost)).tolist() == [True, False]


def rows_of(after: torch.Tensor) -> StepRows:
    return StepRows(after, after, None, 1, False)
