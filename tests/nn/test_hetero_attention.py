from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.nn import (
    ACT,
    EventDriven,
    FixedDepth,
    HaltingUnit,
    HeteroAttention,
    PonderNet,
    ScheduledHalting,
)
from graphut.nn.waking import with_out_neighbours
from tests.helpers import assert_same
from tests.nn.cases import Case, same_as_dense
from tests.nn.hetero import EDGES, X, build, with_recurrence
from tests.nn.reference import dense_event_driven


@pytest.mark.parametrize(
    ("halted", "rule"),
    [
        ("copied", ACT()),
        ("frozen", PonderNet()),
        ("stale", ACT()),
        ("running", PonderNet()),
        ("copied", FixedDepth()),
    ],
)
def test_hetero_attention_in_a_recurrence_equals_masks(halted: str, rule: Any) -> None:
    torch.manual_seed(2)
    halting: Any = HaltingUnit(8, bias_init=-1.0)
    options: Any = {"rule": rule, "halted": halted, "step_signal": "sinusoidal"}
    conv = with_recurrence(build(), halting=halting, **options)
    layout, feat, _ = conv.union(X, EDGES)
    same_as_dense(Case(conv.recurrence, layout, feat.detach().requires_grad_()))


def test_hetero_attention_wakes_nodes_of_all_types() -> None:
    conv = with_recurrence(build(), rule=EventDriven(0.3, max_rounds=9), inject_input=True)
    layout, feat, rows = conv.union(X, EDGES)
    authors = torch.arange(len(feat))[rows["a"]]
    out, ponder = conv.recurrence(layout, feat)
    expected, updates, *_ = dense_event_driven(conv.recurrence, layout, feat)
    assert_same([out], [expected])
    assert torch.equal(ponder.steps, updates) and len(updates.unique()) > 1
    changed = dict(X, a=X["a"] + torch.eye(3, 4).double())
    feat = conv.union(changed, EDGES)[1]
    awake = torch.cat([with_out_neighbours(layout, authors), ponder.awake]).unique()
    found, after = conv.recurrence.resume(ponder, layout, feat, changed=authors)
    expected, updates, *_ = dense_event_driven(
        conv.recurrence, layout, feat, shown=ponder.shown, frontier=awake
    )
    assert_same([found], [expected])
    assert torch.equal(after.steps, updates)


def test_hetero_attention_projects_the_frontier_only(monkeypatch: pytest.MonkeyPatch) -> None:
    conv, seen, project = build().eval(), [], HeteroAttention.project
    conv.recurrence.halting = ScheduledHalting(torch.tensor([1, 3, 2, 1, 1, 4, 1, 2]))

    def noted(layer: Any, rows: Tensor, *args: Any) -> Tensor:
        seen.append(len(rows))
        return project(layer, rows, *args)

    monkeypatch.setattr(HeteroAttention, "project", noted)
    conv(X, EDGES)
    assert seen == [8, 8, 4, 2]  # each with the nodes that have just halted
