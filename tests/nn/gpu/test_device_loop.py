import copy
from collections import Counter
from typing import Any
from weakref import WeakSet

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="needs triton")

from tests.attention.triton.interpreter import INTERPRET, skip_unless_kernels_run

if not INTERPRET:
    pytest.skip("the kernels are compiled here: see the tests marked gpu", allow_module_level=True)

from triton.runtime.interpreter import InterpretedFunction

from graphut.attention import as_layout, edge_attention
from graphut.attention.dropout import dropout_factors
from graphut.attention.triton import launches
from graphut.nn import (
    AdaptiveRecurrence,
    EventDriven,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    ScheduledHalting,
    UniversalTransformerStep,
)
from graphut.nn.gpu import program, replay
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.nn.gpu.program import Program
from graphut.nn.gpu.settings import PLACES
from graphut.topology import Complete, Window
from tests.gpu_stand_in import DeviceTensor, StandIn, gpu_stand_in
from tests.helpers import assert_same, normal, relative_error
from tests.nn.cases import BLOCK, FEATS, Case, build_case, engine, randomised
from tests.nn.reference import dense_event_driven, dense_recurrence
from tests.nn.test_waking import GRAPHS, build, event_driven


@pytest.fixture(autouse=True)
def _kernels_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless_kernels_run()
    monkeypatch.setattr(replay, "idle", [])


def results(case: Case) -> list[Tensor]:
    """Return output, steps, remainder, cost and gradients."""
    out, steps, rest, cost = engine(case.layer, case.graph, case.feat, **case.arguments)
    # The direction of `tests.helpers.gradients` is drawn on the host.
    generator = torch.Generator().manual_seed(1)
    loss = torch.zeros((), device="cuda")
    for part in (out, rest, cost):
        direction = torch.randn(part.shape, generator=generator, dtype=torch.float64)
        loss = loss + (part * direction.float().to("cuda")).sum()
    grads = torch.autograd.grad(loss, case.inputs, allow_unused=True, materialize_grads=True)
    return [out, steps, rest, cost, *grads]


def numbers(found: list[Tensor]) -> list[Tensor]:
    """Return copies on the host."""
    return [(x.numbers if isinstance(x, DeviceTensor) else x).clone() for x in found]


def same_as_dense(*cases: Case) -> StandIn:
    """Compare programs with the dense reference, and return the launches."""
    cases = tuple(case.to(torch.float32) for case in cases)
    references = [case.run(dense_recurrence) for case in cases]
    with gpu_stand_in() as gpu:
        results_of_all = [numbers(results(case.to("cuda"))) for case in cases]
    assert {"advance", "finish", "weight_gradient"} <= {name for name, _ in gpu.launches}
    for found, expected in zip(results_of_all, references, strict=True):
        assert_same(found[:4], expected[:4], 1e-5)
        # All gradients together: terms of a single one may cancel each other in float32.
        joined = (torch.cat([x.flatten() for x in each[4:]]) for each in (found, expected))
        assert relative_error(*joined) <= 1e-5
    return gpu


def small(halting: list[int] | None = None, **modes: Any) -> Case:
    given = None if halting is None else ScheduledHalting(torch.tensor(halting))
    modes = {"lengths": [3, 1], "max_steps": 3} | modes
    return build_case(halting=given, **modes).to(torch.float32)


# Exactness.

MODES: list[dict[str, Any]] = [
    {"halted": "copied", "form": "decoder"},
    {"halted": "copied", "norm": "pre", "topology": "window", "cost": "remainder"},
    {"halted": "copied", "norm": "pre", "topology": "rows", "lengths": [3, 5, 2]},
    {"halted": "frozen", "threshold": 0.7, "positions": False},
    {"halted": "frozen", "form": "decoder", "norm": "pre", "topology": "rows"},
    {"halted": "copied", "inject_input": True, "position_signal": "learned"},
]


@pytest.mark.parametrize("modes", MODES, ids=str)
def test_program_equals_the_dense_reference(modes: dict[str, Any]) -> None:
    same_as_dense(build_case(**{"lengths": [3, 1], "max_steps": 3, **modes}))


@pytest.mark.parametrize("bias", [9.0, -9.0], ids=["all halt at once", "none halts"])
def test_program_halting_at_the_ends(bias: float) -> None:
    case = small(halted="frozen", max_steps=2)
    case.layer.halting.linear.bias.data.fill_(bias)
    same_as_dense(case)


def test_program_over_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are odd: 107 nodes, rows of 20 features, 70 hidden ones; kernels loop over rows."""
    for module in (launches, program):
        monkeypatch.setattr(module, "PROGRAMS", 2)
    layout, depth = Window(2).layout([70, 1, 36]), torch.arange(107) % 3
    step = UniversalTransformerStep(
        MultiHeadAttention(20, 1, bias=False), PositionwiseTransition(20, 70)
    )
    halting = ScheduledHalting(1 + depth * (torch.arange(107) > 66))
    layer = randomised(AdaptiveRecurrence(step, halting, max_steps=2), 4)
    same_as_dense(Case(layer, layout, normal(107, 20), torch.arange(107)))


@pytest.mark.parametrize("modes", [{"halted": "frozen"}, {"norm": "pre"}], ids=str)
def test_program_of_a_block_whose_other_sources_stay(modes: dict[str, Any]) -> None:
    layer = build_case(**modes, max_steps=2).layer
    layer.halting = ScheduledHalting(torch.tensor([1, 2]))
    case = Case(layer, as_layout(BLOCK), normal(5, FEATS)).to(torch.float32)
    expected = case.run(engine)
    with gpu_stand_in() as gpu:
        found = numbers(results(case.to("cuda")))
        assert "advance" in {name for name, _ in gpu.launches}
    assert_same(found[:5], expected[:5], 1e-5)


def test_program_in_float16_is_near_the_reference() -> None:
    case = small([2, 1, 3, 1])
    expected = case.run(dense_recurrence)
    with gpu_stand_in():
        found = numbers(results(case.to(torch.float16).to("cuda")))
    assert found[0].dtype == torch.float16 and found[2].dtype == torch.float32
    assert torch.equal(found[1], expected[1])
    joined = (torch.cat([x.flatten().float() for x in each]) for each in (found, expected))
    assert relative_error(*joined) <= 0.005


def dropping(case: Case, seeds: Tensor) -> list[Tensor]:
    """Compute with plain operators what a program with dropout and no halting node computes."""
    step, positions = case.layer.step, case.positions
    assert positions is not None
    nodes = torch.arange(len(case.feat))

    def drop(rows: Tensor, t: int, place: str, p: float) -> Tensor:
        seed = int(seeds[t, PLACES.index(place), 0])
        return rows * dropout_factors(nodes, rows.shape[1], p, seed, rows.dtype)

    x, out, signal = case.feat, torch.zeros(()), case.layer.position_signal
    for t in range(case.layer.max_steps):
        y = x + signal(positions).float() + signal(torch.tensor([t + 1])).float()
        query = step.attention.query(y).unflatten(1, (2, -1))
        key, value = step.attention.key_value(y).unflatten(1, (2, 2, -1)).unbind(1)
        seed = int(seeds[t, PLACES.index("attention"), 0])
        options: dict[str, Any] = {"dropout": 0.3, "seed": seed, "backend": "dense"}
        heads = edge_attention(case.graph, query, key, value, **options).flatten(1)
        attended = drop(step.attention.output(heads), t, "output", 0.2)
        middle = step.attention_norm(y + attended)
        inner = drop(torch.nn.functional.gelu(step.transition.layers[0](middle)), t, "inner", 0.4)
        moved = drop(step.transition.layers[3](inner), t, "last", 0.2)
        x = step.transition_norm(middle + moved)
        out = out + (0.01 if t < case.layer.max_steps - 1 else 0.99) * x
    learned = [case.feat, *step.parameters()]
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(1))
    return [out, *torch.autograd.grad((out * direction).sum(), learned)]


@pytest.mark.parametrize("topology", ["window", "rows"])
def test_program_with_dropout_equals_plain_operators(
    topology: str, programs: WeakSet[Program]
) -> None:
    case = small([2] * 4, topology=topology, max_steps=2)
    step = case.layer.step
    step.attention.attn_drop, step.dropout.p, step.transition.layers[2].p = 0.3, 0.2, 0.4
    other = copy.deepcopy(case.layer)
    with gpu_stand_in():
        there = Case(other, case.graph, case.feat, case.positions).to("cuda")
        out = there.layer(there.graph, there.feat, **there.arguments)[0]
        direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to("cuda")
        learned = [there.feat, *there.layer.step.parameters()]
        found = numbers([out, *torch.autograd.grad((out * direction).sum(), learned)])
        [program] = programs
        seeds = program.inputs["seeds"].numbers  # type: ignore[attr-defined]
    expected = dropping(case, seeds)
    assert_same([x.detach() for x in found], [x.detach() for x in expected], 1e-5)


@pytest.mark.parametrize("halted", ["copied", "frozen"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_program_records_the_work(halted: str, norm: str) -> None:
    case = small([2, 1, 2, 1], halted=halted, norm=norm)
    names = ("computed", "projected", "edges", "all_edges", "flops", "all_flops")
    with torch.no_grad():
        expected = case.layer(case.graph, case.feat, **case.arguments)[1]
        with gpu_stand_in() as gpu:
            case = case.to("cuda")
            found = case.layer(case.graph, case.feat, **case.arguments)[1]
            assert "advance" in {name for name, _ in gpu.launches}
            for name in names:
                assert int(gpu.host(getattr(found, name))) == getattr(expected, name)
            assert gpu.host(found.frontier_sizes).tolist() == [4, 2, 0]


# What a call launches, and what later calls leave as it is.


def both_passes(case: Case, gpu: StandIn) -> tuple[int, int]:
    """Call and differentiate; return how many launches are forward and backward."""
    gpu.clear()
    out, _, _, cost = engine(case.layer, case.graph, case.feat, **case.arguments)
    forward = len(gpu.launches)
    torch.autograd.grad(out.sum() + cost, case.inputs, allow_unused=True)
    return forward, len(gpu.launches) - forward


@pytest.mark.parametrize(
    ("topology", "depths"),
    [
        ("complete", [[2, 2, 2], [1, 2, 1]]),
        pytest.param("rows", [[2, 2, 2], [1, 1, 1]], marks=pytest.mark.full),
    ],
)
def test_launches_do_not_depend_on_the_nodes_that_halt(
    topology: str, depths: list[list[int]]
) -> None:
    sequences = []
    with gpu_stand_in() as gpu:
        case = small([2] * 3, topology=topology, lengths=[2, 1], max_steps=2).to("cuda")
        both_passes(case, gpu)  # derives tensors from the layout
        for depth in depths:
            case.layer.halting.steps.numbers.copy_(torch.tensor(depth))
            both_passes(case, gpu)
            assert gpu.waits == []
            # Only the code of an error is copied to the host, after the last step.
            [copied] = [copy.line.partition(":")[0] for copy in gpu.copies]
            assert copied == "nn/gpu/async_checks.py"
            names = [event.name for event in gpu.launches]
            assert names.count("finish") == 2
            sequences.append((gpu.calls[:], names))
    assert all(sequence == sequences[0] for sequence in sequences)


@pytest.mark.parametrize("modes", [{}, {"halted": "frozen", "norm": "pre", "form": "decoder"}])
def test_chunks_of_steps_end_when_no_node_is_active(
    modes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that is used again reads no rows of steps that it skips."""
    monkeypatch.setattr(program, "CHUNK", 2)
    depths = [5, 1, 3, 1], [1, 4, 2, 1], [1, 1, 1, 1], [3, 1, 2, 5]
    gpu = same_as_dense(*(small(each, max_steps=5, **modes) for each in depths))
    counts = Counter(name for name, _ in gpu.launches)
    assert counts["finish"] == counts["finish_backward"] == 5 + 4 + 2 + 5
    assert sum(wait.line.startswith("nn/gpu/program.py") for wait in gpu.waits) == 2 + 2 + 1 + 2
    assert len(replay.idle) == 1


def test_a_step_costs_few_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    # Kernels compute nothing, which is enough to count launches.
    monkeypatch.setattr(InterpretedFunction, "__getitem__", lambda *_: lambda *_, **__: None)
    monkeypatch.setattr(AsyncFiniteChecks, "note", lambda *_: None)
    counts = []
    for steps in (2, 3):  # a gradient of one step needs no sum
        with gpu_stand_in() as gpu:
            case = small(lengths=[1, 1], max_steps=steps).to("cuda")
            case.layer(case.graph, case.feat, **case.arguments)  # derives what both share
            counts.append(both_passes(case, gpu))
    assert [b - a for a, b in zip(*counts, strict=True)] == [7, 9]


def poison(program: Program) -> None:
    """Fill the tensors of a program with numbers that must not matter."""
    for value in vars(program).values():
        tensors = value.values() if isinstance(value, dict) else [value]
        for x in tensors if not isinstance(value, list) else value:
            if isinstance(x, DeviceTensor):
                x.numbers.fill_(torch.nan if x.is_floating_point() else 12345)


def test_a_program_is_used_again_whatever_its_tensors_hold(programs: WeakSet[Program]) -> None:
    with gpu_stand_in():
        case, other = (small(depth, max_steps=2).to("cuda") for depth in ([1, 2, 2, 1], [2] * 4))
        out, *earlier = (x.detach() for x in results(case))
        kept = numbers([out, *earlier])
        for each in (other, case):
            [program] = programs
            poison(program)
            again = numbers(results(each))
        assert len(programs) == 1
    assert all(torch.equal(a, b) for a, b in zip(kept, again, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(kept, numbers([out, *earlier]), strict=True))


def test_calls_before_a_backward_pass_have_programs_of_their_own(
    programs: WeakSet[Program],
) -> None:
    with gpu_stand_in():
        cases = [small([1] * 4, seed=seed, max_steps=1).to("cuda") for seed in (0, 9)]
        alone = [numbers(results(case)) for case in cases]
        assert len(programs) == 1
        outs = [engine(case.layer, case.graph, case.feat, **case.arguments) for case in cases]
        assert len(programs) == 2
        for case, (out, *_), expected in zip(cases, outs, alone, strict=True):
            slopes = [torch.autograd.grad(out.sum(), case.feat, retain_graph=True) for _ in "ab"]
            assert torch.equal(slopes[0][0].numbers, slopes[1][0].numbers)
            assert torch.equal(out.detach().numbers, expected[0])


def test_the_number_of_kept_programs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MOST", 1)
    with gpu_stand_in(), torch.no_grad():
        for steps in (1, 2, 1):
            case = small([1], lengths=[1], max_steps=steps).to("cuda")
            case.layer(case.graph, case.feat)
        assert [kept.program.settings.max_steps for kept in replay.idle] == [1]


# Errors.


@pytest.mark.filterwarnings("ignore:invalid value encountered")
@pytest.mark.parametrize("place", ["feature", "weight"])
def test_what_is_not_a_number_is_said_after_the_call(place: str) -> None:
    words = "a feature of node 2 is not a finite number"
    with gpu_stand_in(), torch.no_grad():
        case = small(max_steps=2).to("cuda")
        if place == "feature":
            case.feat.numbers[2, 1] = torch.inf
        else:
            case.layer.step.transition.layers[0].weight.numbers[1, 1] = torch.nan
            words = "the halting probability of node 0 is NaN at step 2"
        with pytest.raises(ValueError, match=words):
            case.layer(case.graph, case.feat, **case.arguments)


def test_program_has_no_second_derivatives() -> None:
    with gpu_stand_in():
        case = small(max_steps=1).to("cuda")
        out = engine(case.layer, case.graph, case.feat, **case.arguments)[0]
        with pytest.raises(RuntimeError, match="no second derivatives"):
            torch.autograd.grad(out.square().sum(), case.feat, create_graph=True)


# Beside programs.


def test_recurrence_that_halts_cannot_be_captured() -> None:
    with gpu_stand_in() as gpu:
        case, gpu.is_capturing = small().to("cuda"), True
        with pytest.raises(RuntimeError, match="CUDA graph cannot record how many nodes halt"):
            case.layer(case.graph, case.feat, **case.arguments)


@pytest.mark.parametrize("graph", ["window", "rows"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_nodes_wake_in_the_general_loop(graph: str, norm: str) -> None:
    layer, layout = build(norm=norm, rule=EventDriven(0.1, 4)).float(), GRAPHS[graph]
    feat = normal(layout.num_src, FEATS, seed=60, dtype=torch.float32)
    out, *expected = dense_event_driven(layer, layout, feat)
    expected = [out.detach(), *expected, *torch.autograd.grad(out.square().sum(), feat)]
    with gpu_stand_in() as gpu:
        feat = feat.detach().to("cuda").requires_grad_()
        out, *found = event_driven(layer.to("cuda"), layout, feat)
        found = numbers([out.detach(), *found, *torch.autograd.grad(out.square().sum(), feat)])
    assert {"attention_forward", "attention_query"} < {name for name, _ in gpu.launches}
    assert_same(found, expected, 1e-5)


@pytest.mark.parametrize("options", [{}, {"halted": "running", "halting": HaltingUnit(16)}])
def test_recurrence_of_fixed_depth_can_be_captured(options: dict[str, Any]) -> None:
    """A CUDA graph neither waits nor copies from the host, and draws dropout."""
    attention = MultiHeadAttention(16, 2, attn_drop=0.5)
    step = UniversalTransformerStep(attention, PositionwiseTransition(16, 32), dropout=0.1)
    layer, graph = AdaptiveRecurrence(step, max_steps=2, **options), Complete().layout([2, 1])
    with gpu_stand_in() as gpu:
        feat, positions = torch.ones(3, 16).cuda(), torch.tensor([1, 2, 1]).cuda()
        layer.to("cuda")(graph, feat, positions=positions)[0].sum().backward()
        gpu.clear()
        gpu.is_capturing = True
        layer(graph, feat, positions=positions)[0].sum().backward()
        assert gpu.waits == gpu.copies == []
        assert [name for name, _ in gpu.launches].count("randint") == 2
