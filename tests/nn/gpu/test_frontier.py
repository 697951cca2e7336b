from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from graphut._dgl import dgl
from graphut.attention import as_layout
from graphut.nn import ScheduledHalting, dense_recurrence
from graphut.nn.gpu import async_checks
from graphut.nn.gpu.async_checks import AsyncHostCopy
from tests.gpu_stand_in import gpu_stand_in
from tests.helpers import (
    assert_same,
    covering,
    name_of,
    no_device_waits,
    normal,
)
from tests.nn.cases import (
    BLOCK,
    FEATS,
    MODES,
    PAIRS,
    ROWS,
    RULES,
    SCHEDULES,
    Case,
    build_case,
    cases_on_any_graph,
    engine,
    modes_of,
    same_as_dense,
)

LAGS = (1, 2, 9)


class Slow(async_checks.AsyncHostCopy):
    """A copy that arrives when `lag` later copies have been started."""

    lag = 0
    sent = 0

    def __init__(self, value: Tensor) -> None:
        super().__init__(value)
        Slow.sent += 1
        self.number = Slow.sent

    def arrived(self) -> bool:
        return Slow.sent - self.number >= self.lag


@pytest.fixture(autouse=True)
def _slow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("gpu") is None:  # programs have tests of their own
        monkeypatch.setattr("graphut.nn.planning.program_settings", lambda *_, **__: None)
    monkeypatch.setattr(async_checks, "LAG", async_checks.LAG)  # which tests set
    monkeypatch.setattr(async_checks, "AsyncHostCopy", Slow)
    monkeypatch.setattr(Slow, "lag", 0)


# Exactness.

SCHEDULED = covering(schedule=list(SCHEDULES), **modes_of("halted", "norm", "form", "topology"))


@pytest.mark.usefixtures("by_slices")
@pytest.mark.parametrize(
    ("row", "lag"), [*zip([*ROWS, *SCHEDULED], cycle(LAGS), strict=False)], ids=str
)
def test_frontier_equals_the_dense_reference(row: dict[str, Any], lag: int) -> None:
    async_checks.LAG = lag
    schedule = SCHEDULES.get(row.pop("schedule", ""))
    halting = None if schedule is None else ScheduledHalting(torch.tensor(schedule))
    steps = same_as_dense(build_case(halting=halting, **row))
    if schedule is not None:
        assert steps.tolist() == [min(step, 5) for step in schedule]


@pytest.mark.usefixtures("by_slices")
@settings(max_examples=40)
@given(cases_on_any_graph(), st.integers(1, 3))
def test_frontier_any_graph_and_halting_pattern(case: Case, lag: int) -> None:
    async_checks.LAG = lag
    same_as_dense(case)


@pytest.mark.usefixtures("by_slices")
@pytest.mark.parametrize("row", covering(lag=LAGS, **modes_of("halted", "norm")), ids=name_of)
def test_frontier_sources_outside_a_block(
    row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lag, block = row.pop("lag"), BLOCK
    layer = build_case(**row).layer
    layer.halting = ScheduledHalting(torch.tensor([1, 3]))
    async_checks.LAG = lag
    found = engine(layer, block, normal(5, FEATS))
    monkeypatch.undo()
    as_layout(BLOCK).plans.clear()
    assert_same(found, engine(layer, block, normal(5, FEATS)))


KERNELS = covering(
    halted=("copied", "frozen", "stale"),
    norm=MODES["norm"],
    form=MODES["form"],
    topology=("window", "rows"),
)


@pytest.mark.parametrize("modes", KERNELS, ids=name_of)
def test_frontier_with_the_kernels(modes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="needs triton")
    from tests.attention.triton.interpreter import INTERPRET, skip_unless_kernels_run

    if not INTERPRET:
        pytest.skip("the kernels are compiled here: see the tests marked gpu")
    skip_unless_kernels_run()
    monkeypatch.setattr("graphut.nn.attention.takes_counts", lambda *_, **__: True)
    halting = ScheduledHalting(torch.tensor([2, 1, 3, 1]))
    case = build_case(**modes, lengths=[3, 1], halting=halting, max_steps=4).to(torch.float32)
    async_checks.LAG = 1
    same_as_dense(case, 1e-5)


# The work, and that nothing waits.

# Rows of each step, for each lag of the bound.
ROWS = {
    1: [10, 10, 6, 3, 1, 1],
    2: [10, 10, 10, 6, 3, 1, 1],
    9: [10] * 8,
}


@pytest.mark.usefixtures("by_slices")
@pytest.mark.parametrize("lag", ROWS)
def test_a_step_costs_what_the_frontier_of_so_many_steps_ago_costs(
    lag: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    halting = ScheduledHalting(torch.tensor([1, 2, 1, 5, 3, 1, 2, 3, 2, 1]))
    case = build_case(halting=halting, max_steps=8)
    rows = []
    case.layer.step.transition.layers.register_forward_hook(
        lambda module, args, _: rows.append(len(args[0]))
    )
    async_checks.LAG = lag
    ponder = case.layer(case.graph, case.feat)[1]
    assert rows == ROWS[lag]
    monkeypatch.undo()  # rows of no node are not counted as work
    expected = case.layer(case.graph, case.feat)[1]
    for name in ("computed", "projected", "edges", "all_edges", "flops", "all_flops"):
        assert getattr(ponder, name) == getattr(expected, name)


def alike(layout: Any, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    """Return a tensor of the shape of attention that depends on all inputs."""
    return query + key.mean() + value.mean()


@pytest.mark.usefixtures("by_slices")
@pytest.mark.parametrize(
    "modes",
    [
        *covering(**modes_of("halted", "weighting", "norm", "form", "transition")),
        *({"rule": name} for name in RULES if name != "fixed"),
    ],
    ids=name_of,
)
def test_frontier_no_number_is_looked_at(
    modes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphut.nn.attention.counted_attention", alike)
    monkeypatch.setattr("graphut.nn.attention.edge_attention", alike)
    monkeypatch.setattr("graphut.nn.planning.program_settings", lambda *_, **__: None)
    monkeypatch.setattr(async_checks, "AsyncHostCopy", AsyncHostCopy)
    with gpu_stand_in() as gpu:
        case = build_case(**modes).to("cuda")
        for _ in range(2):  # the first call derives tensors from the layout
            gpu.clear()
            out, ponder = case.layer(case.graph, case.feat, **case.arguments)
            torch.autograd.grad(out.sum() + ponder.cost, case.inputs, allow_unused=True)
        assert gpu.waits == [] and len(gpu.launches) > 50


@pytest.mark.usefixtures("by_slices")
@pytest.mark.parametrize("rule", [None, "ponder_net"])
def test_frontier_a_graph_without_nodes(rule: str | None) -> None:
    with gpu_stand_in():
        case = build_case(rule=rule).to("cuda")
        out, ponder = case.layer(dgl.graph(([], [])), case.feat[:0])
        assert out.shape == (0, FEATS) and ponder.cost == 0


@pytest.mark.gpu
@pytest.mark.parametrize("modes", PAIRS, ids=name_of)
def test_frontier_on_a_gpu(modes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are correct, and a forward and backward pass never waits."""
    monkeypatch.setattr(async_checks, "AsyncHostCopy", AsyncHostCopy)
    case = build_case(**modes).to(torch.float32)
    expected = case.run(dense_recurrence)
    case = case.to("cuda")

    def on_host(*arguments: Any, **options: Any) -> list[Tensor]:
        return [x.cpu() for x in engine(*arguments, **options)]

    found = case.run(on_host)  # compiles, and prepares the layouts
    assert_same([x.cpu() for x in found], expected, 1e-4)
    with no_device_waits():
        out, _, rest, _ = engine(case.layer, case.graph, case.feat, **case.arguments)
        torch.autograd.grad(out.sum() + rest.sum(), case.inputs, allow_unused=True)


# Bad input.


@pytest.mark.usefixtures("by_slices")
@pytest.mark.parametrize("halted", MODES["halted"])
def test_frontier_what_is_not_a_number_is_said_when_it_is_known(halted: str) -> None:
    words = r"halting probability of node 3 is NaN at step 2.*clip"
    case = build_case(halted=halted, halting=Broken())
    with pytest.raises(ValueError, match=words):
        case.layer(case.graph, case.feat)
    Slow.lag = 9
    case.layer(case.graph, case.feat)
    Slow.lag = 0
    with pytest.raises(ValueError, match=words):
        case.layer(case.graph, case.feat)


class Broken(nn.Module):
    """Halting module that halts even nodes at once; NaN for node 3 at step 2."""

    def forward(self, feat: Tensor, nodes: Tensor | None, step: int) -> Tensor:
        nodes = torch.arange(len(feat)) if nodes is None else nodes
        probability = torch.where(nodes % 2 == 0, 1.0, 0.1).double()
        return probability.masked_fill((nodes == 3) & (step == 2), torch.nan)
