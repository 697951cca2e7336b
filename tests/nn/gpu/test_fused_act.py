from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("triton", reason="needs triton")

from tests.attention.triton.interpreter import INTERPRET, skip_unless_kernels_run

if not INTERPRET:
    pytest.skip("the kernels are compiled here: see the tests marked gpu", allow_module_level=True)

from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    ScheduledHalting,
    UniversalTransformerStep,
    dense_recurrence,
)
from graphut.nn.call_state import LoopState
from graphut.nn.gpu import async_checks
from graphut.nn.gpu.fused_act import FusedFrontier, FusedRows
from graphut.nn.loop import FRONTIERS
from graphut.topology import Complete
from tests.attention.triton.bfloat16 import mend_bfloat16
from tests.gpu_stand_in import DeviceTensor, gpu_stand_in
from tests.helpers import assert_same, covering, name_of, normal, relative_error
from tests.nn.cases import FEATS, Case, build_case, engine, randomised, same_as_dense

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


@pytest.fixture(autouse=True)
def _kernels_run_here() -> None:
    skip_unless_kernels_run()


# The end of a step, beside attention that only reads the count.


@pytest.fixture
def fused(by_slices: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let recurrences on the CPU run as on a GPU, with the kernels of ACT."""

    def frontier(state: LoopState) -> FusedFrontier:
        plan, given = state.plan, (state.feat, state.encodings, state.context.num_dst)
        rows = FusedRows(*given, state.checks, plan.rule, plan.halting, plan.max_steps)
        return FusedFrontier(state, rows)

    monkeypatch.setitem(FRONTIERS, "counted", frontier)


SETTINGS = covering(
    halt_from=("input", "output"),
    forced_remainder=(True, False),
    cost=("steps+remainder", "remainder"),
    encoded=(True, False),
    lag=(1, 2, 9),
    nodes=(1, 31, 32, 33, 70),
    bias=(-0.5, 5.0, -9.0),  # some halt, all at once, none
    dtype=tuple(TOLERANCE),
    halted=("copied", "frozen", "stale", "running"),
)


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("row", SETTINGS, ids=name_of)
def test_fused_step_end_equals_the_dense_reference(
    row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes, bias, dtype, lag = (row.pop(name) for name in ("nodes", "bias", "dtype", "lag"))
    if not row.pop("encoded"):
        row |= {"position_signal": None, "step_signal": None}
    monkeypatch.setattr(async_checks, "LAG", lag)
    case = build_case(lengths=[nodes], topology="window", max_steps=4, **row)
    case.layer.halting.linear.bias.data.fill_(bias)
    case = case.to(dtype)
    found, expected = case.run(engine), case.run(dense_recurrence)
    assert_same(found[:4], expected[:4], TOLERANCE[dtype])
    # All gradients together: terms of a single one may cancel each other in float32.
    joined = (torch.cat([x.flatten() for x in each[4:]]) for each in (found, expected))
    assert relative_error(*joined) <= TOLERANCE[dtype]


@pytest.mark.usefixtures("fused")
def test_fused_step_end_of_wide_rows() -> None:
    step = UniversalTransformerStep(MultiHeadAttention(150, 2), PositionwiseTransition(150, 9))
    layer = randomised(AdaptiveRecurrence(step, HaltingUnit(150), max_steps=4))
    layer.halting.linear.weight.data.mul_(0.1)
    same_as_dense(Case(layer, Complete().layout([3]), normal(3, 150)))


class Given(nn.Module):
    """A custom halting module, whose probabilities depend on the node."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(normal(FEATS, seed=4).detach())

    def forward(self, feat: Tensor, nodes: Tensor | None, step: int) -> Tensor:
        nodes = torch.arange(len(feat)) if nodes is None else nodes
        return torch.sigmoid(feat @ self.weight + 0.1 * nodes)


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_fused_step_end_with_any_halting_module(dtype: torch.dtype) -> None:
    same_as_dense(build_case(halting=Given(), lengths=[40]).to(dtype), TOLERANCE[dtype])
    hooked = build_case()
    hooked.layer.halting.register_forward_hook(lambda module, args, p: p * 0.5)
    same_as_dense(hooked.to(dtype), TOLERANCE[dtype])


@pytest.mark.usefixtures("fused")
def test_fused_step_end_of_bfloat16_is_near_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    mend_bfloat16(monkeypatch)
    halting = ScheduledHalting(torch.tensor([2, 1, 3, 1, 4, 2, 5, 5, 1, 3]))
    case = build_case(halting=halting).to(torch.bfloat16)
    out, steps, *rest = engine(case.layer, case.graph, case.feat, **case.arguments)
    assert out.dtype == torch.bfloat16 and {x.dtype for x in rest} == {torch.float32}
    wanted = dense_recurrence(case.layer, case.graph, case.feat, **case.arguments)
    assert_same([out.float(), steps], [wanted[0].float(), wanted[1]], 0.03)


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize(("wrong", "words"), [(torch.nan, "is NaN"), (-0.5, "is outside of")])
def test_fused_step_end_notes_what_is_not_a_probability(wrong: float, words: str) -> None:
    case = build_case(lengths=[40])
    case.layer.halting.register_forward_hook(
        lambda module, args, p: p.masked_fill(torch.arange(len(p)) == 35, wrong)
    )
    with pytest.raises(ValueError, match=f"halting probability of node 35 {words}.* at step 1"):
        case.layer(case.graph, case.feat)


# In the recurrence, on a device.


def run(case: Case) -> list[Tensor]:
    """Return output, steps, remainder, cost and gradients on the host."""
    out, steps, rest, cost = engine(case.layer, case.graph, case.feat, **case.arguments)
    # The direction of `tests.helpers.gradients` is drawn on the host.
    generator = torch.Generator().manual_seed(1)
    loss = torch.zeros((), device="cuda")
    for part in (out, rest, cost):
        direction = torch.randn(part.shape, generator=generator, dtype=torch.float64)
        loss = loss + (part * direction.float().to("cuda")).sum()
    grads = torch.autograd.grad(loss, case.inputs, allow_unused=True, materialize_grads=True)
    found = [out, steps, rest, cost, *grads]
    return [x.numbers if isinstance(x, DeviceTensor) else x for x in found]


def small(**modes: Any) -> Case:
    halting = ScheduledHalting(torch.tensor([2, 1, 3, 1]))
    modes = {"halting": halting, "lengths": [3, 1], "max_steps": 3} | modes
    return build_case(**modes).to(torch.float32)


IN_LOOP = [
    {"halted": "copied", "transition": "sepconv"},
    {"halted": "copied", "norm": "pre", "inject_input": True},
    {"halted": "frozen", "form": "decoder"},
    {"halted": "stale", "topology": "rows", "positions": False},
]


@pytest.mark.parametrize("modes", IN_LOOP, ids=name_of)
def test_fused_frontier_in_the_recurrence(modes: dict[str, Any]) -> None:
    case = small(**modes)
    expected = case.run(dense_recurrence)
    with gpu_stand_in() as gpu:
        found = run(case.to("cuda"))
        assert {"act_decide", "act_compact", "act_backward"} <= {name for name, _ in gpu.launches}
    assert_same(found, expected, 1e-4)


@pytest.mark.parametrize("weighting", ["sum", "ema"])
def test_results_do_not_depend_on_when_counts_arrive(weighting: str) -> None:
    """Results are equal to the last bit, whenever counts arrive at the host."""
    runs = []
    for chance in (0.0, 0.5):
        generator = random.Random(chance)
        with gpu_stand_in(arrives=lambda: generator.random() < chance):  # noqa: B023
            runs.append(run(small(weighting=weighting).to("cuda")))
    assert len(runs[0][1].unique()) > 1
    for other in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(runs[0], other, strict=True))


# The cost of a step.


def counted(halting: bool, steps: int) -> tuple[int, int, list[Any], list[Any]]:
    """Count launches forward and backward; also return waits and copies."""
    step = UniversalTransformerStep(MultiHeadAttention(16, 2), PositionwiseTransition(16, 32))
    unit = HaltingUnit(16, gain=0.0, bias_init=-3.0) if halting else None
    layer, graph = AdaptiveRecurrence(step, unit, max_steps=steps), Complete().layout([2, 1])
    with gpu_stand_in() as gpu:
        layer = layer.to("cuda")
        feat = normal(3, 16, dtype=torch.float32).detach().to("cuda").requires_grad_()
        positions = torch.tensor([1, 2, 1]).to("cuda")
        for _ in range(2):  # the first call creates what both share
            gpu.clear()
            out, ponder = layer(graph, feat, positions=positions)
            forward = len(gpu.launches)
            (out.sum() + ponder.cost).backward()
        return forward, len(gpu.launches) - forward, gpu.waits, gpu.copies


@pytest.mark.parametrize(("halting", "forward", "backward"), [(True, 21, 52), (False, 13, 43)])
def test_recurrence_launches_few_kernels_a_step_and_never_waits(
    halting: bool, forward: int, backward: int
) -> None:
    (first, back, waits, _), (more, more_back, *others) = (counted(halting, n) for n in (2, 3))
    assert more - first <= forward and more_back - back <= backward
    assert waits == others[0] == []
    to_host = {copy.line.partition(":")[0] for copy in others[1]}
    assert to_host <= {"nn/gpu/async_checks.py"}


@pytest.mark.parametrize("options", [{}, {"halted": "running", "halting": HaltingUnit(16)}])
def test_recurrence_of_fixed_depth_can_be_captured(options: dict[str, Any]) -> None:
    """A CUDA graph neither waits nor copies from the host, and draws dropout."""
    attention = MultiHeadAttention(16, 2, attn_drop=0.5)
    step = UniversalTransformerStep(attention, PositionwiseTransition(16, 32), dropout=0.1)
    layer, graph = AdaptiveRecurrence(step, max_steps=2, **options), Complete().layout([2, 1])
    with gpu_stand_in() as gpu:
        layer = layer.to("cuda")
        feat = torch.ones(3, 16, device="cuda")
        positions = torch.tensor([1, 2, 1]).to("cuda")
        layer(graph, feat, positions=positions)[0].sum().backward()
        gpu.clear()
        gpu.is_capturing = True
        layer(graph, feat, positions=positions)[0].sum().backward()
        assert gpu.waits == gpu.copies == []
        assert [name for name, _ in gpu.launches].count("randint") == 2


def test_recurrence_that_halts_cannot_be_captured() -> None:
    case = small()
    with gpu_stand_in() as gpu:
        case, gpu.is_capturing = case.to("cuda"), True
        with pytest.raises(RuntimeError, match="CUDA graph cannot record how many nodes halt"):
            case.layer(case.graph, case.feat, **case.arguments)
