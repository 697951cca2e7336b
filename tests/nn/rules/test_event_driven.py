from __future__ import annotations

import pytest
import torch

from graphut.nn import EventDriven, parse_rule
from graphut.nn.rules.base import StepRows


def test_event_driven_reads_its_own_spec() -> None:
    rule = EventDriven(tol=0.25, max_rounds=500)
    assert parse_rule(rule.spec()) == rule


@pytest.mark.parametrize("options", [{"tol": -0.1}, {"tol": float("inf")}, {"max_rounds": -1}])
def test_event_driven_refuses_wrong_values(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be 0 or more"):
        EventDriven(**options)  # type: ignore[arg-type]


def test_event_driven_does_not_decide_without_a_graph() -> None:
    rows = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="only AdaptiveRecurrence can run it"):
        EventDriven().decide((), torch.zeros(2), StepRows(rows, rows, None, 1, False))
