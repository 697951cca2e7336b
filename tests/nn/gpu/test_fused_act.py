from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("triton", reason="needs triton")

from tests.attention.triton.interpreter import INTERPRET, skip_unless_kernels_run

if not INTERPRET:
    pytest.skip("the kernels are compiled here: see the tests marked gpu", allow_module_level=True)

from graphut.nn import (
    ACT,
    AdaptiveRecurrence,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    UniversalTransformerStep,
    dense_recurrence,
)
from graphut.nn.frontier import HaltingFrontier
from graphut.nn.gpu import async_checks
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.nn.gpu.frontier import DeviceRows
from graphut.nn.gpu.fused_act import FusedRows
from graphut.nn.halting import ScheduledHalting
from graphut.nn.loop_state import LoopState
from graphut.topology import Complete
from tests.attention.triton.bfloat16 import mend_bfloat16
from tests.gpu_stand_in import DeviceTensor, gpu_stand_in
from tests.helpers import assert_same, covering, gradients, name_of, normal
from tests.nn.cases import Case, build_case, engine, randomised

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


@pytest.fixture(autouse=True)
def _kernels_run_here() -> None:
    skip_unless_kernels_run()


# The end of a step beside the plain one.


class Trial:
    """A loop of steps without attention, whose ends are fused or not."""

    def __init__(
        self, nodes: int, unit: nn.Module, rule: ACT, *, width: int = 5, encoded: bool = True
    ) -> None:
        self.unit, self.rule, self.cap = unit, rule, 4
        self.feat = normal(nodes + 1, width, seed=1)  # the last is a source only
        self.encodings = normal(nodes + 1, width, seed=2) if encoded else None
        self.map = normal(width, width, seed=3)

    def to(self, dtype: torch.dtype) -> Trial:
        self.unit = self.unit.to(dtype)
        for name in ("feat", "map", "encodings"):
            given = getattr(self, name)
            if given is not None:
                setattr(self, name, given.detach().to(dtype).requires_grad_())
        return self

    @property
    def inputs(self) -> list[Tensor]:
        given = [self.feat, self.map, self.encodings, *self.unit.parameters()]
        return [x for x in given if x is not None]

    def run(self, fused: bool) -> tuple[list[Tensor], AsyncFiniteChecks]:
        """Return outputs, the rows of all steps and gradients, and the checks."""
        num_dst = len(self.feat) - 1
        layer = nn.Identity()
        checks = AsyncFiniteChecks(layer, num_dst + 1, num_dst)
        checks.check_features(self.feat)
        given = self.feat, self.encodings, num_dst, checks
        frontier: Any
        end: Any
        if fused:
            frontier = end = FusedRows(*given, self.rule, self.unit, self.cap)
        else:
            step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 8))
            recurrence: Any = AdaptiveRecurrence(step, max_steps=self.cap, step_signal=None)
            recurrence.halting, recurrence.rule = self.unit, self.rule
            context: Any = SimpleNamespace(num_dst=num_dst)
            state = LoopState(recurrence, context, self.feat, None, num_dst, checks=checks)
            frontier = DeviceRows(*given)
            end = HaltingFrontier(state, frontier)
        shown = []
        for step in range(1, self.cap + 1):
            before = frontier.active() + 0.1 * step
            real = (frontier.nodes <= num_dst)[:, None]
            shown.append(torch.where(real, before, 0.0).sum() + frontier.last()[0].sum())
            shown.append(frontier.nodes.double())
            end.end_step(before, torch.tanh(before @ self.map), step)
            if not frontier.num_active:
                break
        out, steps, remainder, cost = end.result()[:4]
        found = [out, remainder, cost, *(x for x in shown if x.requires_grad)]
        return [*found, steps, *shown, *gradients(found, self.inputs)], checks


def unit_for(bias: float) -> HaltingUnit:
    unit = randomised(HaltingUnit(5), seed=9)
    unit.linear.bias.data.fill_(bias)
    return unit


def check(trial: Trial, dtype: torch.dtype) -> Tensor:
    trial.to(dtype)
    found, expected = trial.run(fused=True)[0], trial.run(fused=False)[0]
    assert_same(found, expected, TOLERANCE[dtype])
    return found[0]


SETTINGS = covering(
    halt_from=("input", "output"),
    forced_remainder=(True, False),
    cost=("steps+remainder", "remainder"),
    encoded=(True, False),
    lag=(1, 2, 9),
    nodes=(1, 31, 32, 33, 70),
    bias=(-0.5, 5.0, -9.0),  # some halt, all at once, none
    dtype=tuple(TOLERANCE),
)


@pytest.mark.parametrize("settings", SETTINGS, ids=name_of)
def test_fused_step_end_is_that_by_rule(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = dict(settings)
    nodes, bias, dtype, encoded, lag = (
        settings.pop(name) for name in ("nodes", "bias", "dtype", "encoded", "lag")
    )
    monkeypatch.setattr(async_checks, "LAG", lag)
    check(Trial(nodes, unit_for(bias), ACT(**settings), encoded=encoded), dtype)


def test_fused_step_end_of_wide_rows() -> None:
    trial = Trial(3, randomised(HaltingUnit(150), seed=9), ACT(), width=150)
    trial.feat.data.mul_(0.1)
    check(trial, torch.float64)


class Given(nn.Module):
    """A custom halting module, whose probabilities depend on the node."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(normal(5, seed=4).detach())

    def forward(self, feat: Tensor, nodes: Tensor, step: int) -> Tensor:
        return torch.sigmoid(feat @ self.weight + 0.1 * nodes)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_fused_step_end_with_any_halting_module(dtype: torch.dtype) -> None:
    check(Trial(40, Given(), ACT()), dtype)
    hooked = unit_for(-0.5)
    hooked.register_forward_hook(lambda module, args, p: p * 0.5)
    check(Trial(5, hooked, ACT()), dtype)


def test_fused_step_end_of_bfloat16_is_near_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    mend_bfloat16(monkeypatch)
    exact = check(Trial(40, unit_for(-9.0), ACT()), torch.float32)
    trial = Trial(40, unit_for(-9.0), ACT())
    trial.to(torch.bfloat16)
    found = trial.run(fused=True)[0]
    assert found[0].dtype == torch.bfloat16 and found[1].dtype == torch.float32
    assert_same([found[0].float()], [exact], 0.03)


def test_fused_step_end_notes_what_is_not_a_number() -> None:
    unit = Given()
    for wrong, words in ((torch.nan, "node 35 is NaN"), (-0.5, "node 35 is outside of")):
        unit.register_forward_hook(
            lambda module, args, p, wrong=wrong: p.masked_fill(args[1] == 35, wrong)
        )
        trial = Trial(40, unit, ACT()).to(torch.float32)
        for fused in (True, False):
            found, checks = trial.run(fused)
            assert wrong < 0 or found[0].isnan().any(1).nonzero().tolist() == [[35]]
            with pytest.raises(ValueError, match=f"halting probability of {words}.* at step 1"):
                checks.close()


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
