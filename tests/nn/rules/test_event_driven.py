from __future__ import annotations

import pytest
import torch

from graphut.nn import EventDriven
from graphut.nn.rules.base import StepRows


def test_event_driven_does_not_decide_without_a_graph() -> None:
    rows = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="only AdaptiveRecurrence can run it"):
        EventDriven().decide((), torch.zeros(2), StepRows(rows, rows, None, 1, False))
