from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="needs triton")

from tests.attention.triton.interpreter import INTERPRET, skip_unless_kernels_run

if not INTERPRET:
    pytest.skip("the kernels are compiled here: see the tests marked gpu", allow_module_level=True)

from graphut.attention import EdgeLayout
from graphut.attention.triton import launches
from graphut.nn import (
    AdaptiveRecurrence,
    EventDriven,
    InputNoise,
    Ponder,
    Quantized,
)
from graphut.nn.call import begin_call
from graphut.nn.gpu import replay, settings, waking
from graphut.nn.loop import choose_backend
from graphut.topology import Patch
from tests.attention.triton.bfloat16 import mend_bfloat16
from tests.gpu_stand_in import StandIn, gpu_stand_in
from tests.helpers import assert_same, layout_of, name_of, normal, relative_error
from tests.nn.cases import FEATS
from tests.nn.gpu.test_device_loop import Recorder, poison
from tests.nn.reference import dense_event_driven
from tests.nn.test_waking import GRAPHS, beside, build

ROUNDS = 2  # of a program in these tests
WORK = ("computed", "edges", "all_edges")
EXTRA = {
    "grid": Patch(3, 1).layout([9]),
    "path": layout_of([(i, i + 1) for i in range(7)], 8, 8),
}


@pytest.fixture(autouse=True)
def _small_programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let kernels loop over rows, and a program have few rounds."""
    skip_unless_kernels_run()
    monkeypatch.setattr(replay, "idle", [])
    for module in (launches, waking):
        monkeypatch.setattr(module, "PROGRAMS", 2)
    monkeypatch.setattr(settings, "ROUNDS", ROUNDS)
    with torch.no_grad():
        yield


def quick(graph: str, **options: Any) -> tuple[AdaptiveRecurrence, EdgeLayout, Tensor]:
    """Return a recurrence in float32, a graph and features."""
    layout = (GRAPHS | EXTRA)[graph]
    feat = normal(layout.num_src, FEATS, seed=60, dtype=torch.float32).detach()
    return build(**options).float(), layout, feat


def on_device(
    gpu: StandIn, layer: Any, layout: EdgeLayout, feat: Tensor, earlier: Any = None, **options: Any
) -> tuple[Tensor, Ponder]:
    """Call on the device, after `earlier` if it is given; return results on the host."""
    there = {name: x.to("cuda") for name, x in options.items()}
    call = layer.to("cuda")
    if isinstance(earlier, Ponder):
        assert earlier.shown is not None and earlier.awake is not None
        earlier = replace(earlier, shown=earlier.shown.cuda(), awake=earlier.awake.cuda())
        out, ponder = layer.resume(earlier, layout, feat.cuda(), **there)
    else:
        out, ponder = call(layout, feat.cuda(), **there)
    names = ("steps", "last_change", "rounds", "quiescent", "awake", "shown", "cost", "remainder")
    layer.to("cpu")
    numbers = {name: gpu.host(getattr(ponder, name)).clone() for name in names}
    ponder.work.computed, ponder.work.edges, ponder.work.projected = (
        int(gpu.host(x)) for x in (ponder.computed, ponder.edges, ponder.projected)
    )
    return gpu.host(out).clone(), replace(ponder, **numbers)


def same_as_reference(
    layer: Any, layout: EdgeLayout, feat: Tensor, **options: Any
) -> tuple[Ponder, list[str]]:
    """Compare a program with the masked reference and the loop; return record and launches."""
    expected = dense_event_driven(layer, layout, feat, **options)
    out, by_loop = layer(layout, feat, **options)
    with gpu_stand_in() as gpu:
        out, ponder = on_device(gpu, layer, layout, feat, **options)
        names = [name for name, _ in gpu.launches]
    assert "settle" in names
    record = ponder.steps, ponder.last_change, ponder.rounds, ponder.quiescent
    assert_same([out, *record], expected, 1e-5)
    same_record(ponder, by_loop)
    assert ponder.projected == layout.num_src + ponder.steps.sum()
    return ponder, names


def same_record(found: Ponder, expected: Ponder) -> None:
    """Compare all fields of two records that do not depend on rounding."""
    for name in ("steps", "last_change", "rounds", "quiescent", "awake", "remainder", "cost"):
        a, b = getattr(found, name), getattr(expected, name)
        assert a.dtype == b.dtype and torch.equal(a, b), name
    for name in ("round_sizes", "num_cut_off", "max_steps", *WORK):
        assert getattr(found, name) == getattr(expected, name), name
    assert found.shown is not None and expected.shown is not None
    assert_same([found.shown], [expected.shown], 1e-5)


CASES: list[dict[str, Any]] = [
    {"graph": "one-way", "rule": EventDriven(0.25, 40)},  # graphs rest after different rounds
    {"graph": "one-way", "rule": EventDriven(0.05, 2), "norm": "pre"},
    {"graph": "path", "rule": EventDriven(9.0)},  # all at rest at once
    {"graph": "block", "rule": EventDriven(0.2, 3)},
    {"graph": "grid", "rule": EventDriven(0.0, 3), "quantize": Quantized(3), "norm": "pre"},
    {"graph": "window", "rule": EventDriven(0.1, 2), "inject_input": False},
    *({"graph": "path", "rule": EventDriven(0.0, n), "quantize": Quantized(1)} for n in (3, 30)),
]


@pytest.mark.parametrize("modes", CASES, ids=name_of)
def test_program_equals_the_masked_reference(modes: dict[str, Any]) -> None:
    same_as_reference(*quick(**modes))


def test_resume_equals_the_masked_reference() -> None:
    """A run that was cut off goes on, with new features, two new nodes and edges into node 9."""
    layer, layout, feat = quick("rows", rule=EventDriven(0.1, 1), quantize=Quantized(2))
    earlier = layer(layout, feat)[1]
    earlier = replace(earlier, shown=earlier.shown[:8], awake=torch.tensor([1, 3]))
    options = {"changed": torch.tensor([5]), "edges_into": torch.tensor([9])}
    layer.rule = EventDriven(0.1, 3)
    expected = layer.resume(earlier, layout, feat, **options)
    with gpu_stand_in() as gpu:
        out, ponder = on_device(gpu, layer, layout, feat, earlier, **options)
        assert "settle" in {name for name, _ in gpu.launches}
        assert len(ponder.round_sizes) > 1 and ponder.round_sizes[0] < 10
        assert_same([out], [expected[0]], 1e-5)
        same_record(ponder, expected[1])
        # With nothing changed, and nothing awake, no node computes.
        rest = replace(ponder, awake=torch.arange(0))
        again, ponder = on_device(gpu, layer, layout, feat, rest)
        assert torch.equal(again, out) and ponder.round_sizes == [] and ponder.quiescent.all()


def test_program_with_positions() -> None:
    layer, layout, feat = quick("rows", rule=EventDriven(0.1, 2))
    same_as_reference(layer, layout, feat, positions=torch.arange(10) % 4 + 1)


def test_program_in_bfloat16_is_near_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    mend_bfloat16(monkeypatch)
    layer, layout, feat = quick("grid", rule=EventDriven(), max_steps=2)
    expected = layer(layout, feat)[0]
    with gpu_stand_in() as gpu:
        out, _ = on_device(gpu, layer.bfloat16(), layout, feat.bfloat16())
    assert out.dtype == torch.bfloat16 and relative_error(out, expected) <= 0.02


# What a call launches, and what later calls leave as it is.


def test_launches_do_not_depend_on_the_nodes_that_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host waits for a check of the features, after each run, and for nodes still awake."""
    runs: list[list[Any]] = []
    run, limit = replay.Replay.run, 2 * ROUNDS
    layer, layout, feat = quick("path", rule=EventDriven(0.1, limit))
    with gpu_stand_in() as gpu:

        def counted(launches: replay.Replay, first: int) -> None:
            before = gpu.waits[:], gpu.copies[:]
            ran, called = len(gpu.launches), len(gpu.calls)
            run(launches, first)
            assert before == (gpu.waits, gpu.copies)
            runs.append(gpu.calls[called:])
            assert len(gpu.launches) - ran == len(runs[-1]) == 8 * ROUNDS  # of at most 12

        monkeypatch.setattr(replay.Replay, "run", counted)
        earlier = on_device(gpu, layer, layout, feat)[1]  # derives tensors from the layout
        sizes = []
        for awake, x in (([4, 5], -3 * feat), ([7], feat)):
            gpu.clear()
            before = replace(earlier, awake=torch.tensor(awake))
            sizes.append(on_device(gpu, layer, layout, x, before)[1].round_sizes)
            waits = [line.partition(":")[0] for _, line in gpu.waits if line.startswith("nn/gpu")]
            assert len(waits) <= 3  # after each run, and at the end if nodes are awake
    assert sizes[0][0] == 2 and sizes[1] == [1]
    assert len(runs) == 5 and all(each == runs[0] for each in runs)


def test_a_program_is_used_again_whatever_its_tensors_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second run on, a graph is replayed; it leaves earlier results as they are."""
    graphs: list[Recorder] = []
    monkeypatch.setattr(replay, "INTERPRETED", False)
    monkeypatch.setattr(replay, "capture", lambda run: graphs.append(Recorder(run)) or graphs[-1])
    layer, layout, feat = quick("path", rule=EventDriven(0.1, ROUNDS))
    expected = layer(layout, feat)[1]
    with gpu_stand_in() as gpu:
        earlier = layer.to("cuda")(layout, feat.cuda())
        [kept] = replay.idle
        poison(kept.program)
        on_device(gpu, layer, layout, -feat)
        poison(kept.program)
        out, ponder = on_device(gpu, layer, layout, feat)
        shown = gpu.host(earlier[0]), gpu.host(earlier[1].last_change), gpu.host(earlier[1].steps)
        assert len(replay.idle) == 1 and [each.replayed for each in graphs] == [2]
    assert all(map(torch.equal, shown, (out, ponder.last_change, ponder.steps)))
    same_record(ponder, expected)


@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_what_is_not_a_number_is_an_error() -> None:
    layer, layout, feat = quick("path", rule=EventDriven(0.1, 4))
    with gpu_stand_in() as gpu:
        feat[7, 1] = torch.inf
        with pytest.raises(ValueError, match="feature 1 of node 7 is inf"):
            on_device(gpu, layer, layout, feat)
        feat[7, 1] = 0.0
        layer.step.transition.layers[0].weight[1, 1] = torch.nan
        with pytest.raises(ValueError, match="state of node 0 is not finite in round 1: a weight"):
            on_device(gpu, layer, layout, feat)


# Beside programs.


OTHERS: dict[str, Any] = {
    "gradients": lambda layer: torch.set_grad_enabled(True),
    "noise": lambda layer: setattr(layer, "noise", InputNoise(0.1, "every_step")),
    "noise of states": lambda layer: setattr(layer, "quantize", Quantized(1, 0.1)),
    "dropout": lambda layer: setattr(layer.step.dropout, "p", 0.1),
    "messages": lambda layer: setattr(layer, "step", beside().float()),
    "hook": lambda layer: layer.step.attention.query.register_forward_hook(lambda *_: None),
}


GIVEN: dict[str, Callable[[Any], dict[str, Any]]] = {
    "edge_weight": lambda layout: {"edge_weight": torch.ones(layout.num_edges)},
    "get_steps": lambda layout: {"get_steps": True},
    "graph_ids": lambda layout: {"graph_ids": torch.zeros(layout.num_dst, dtype=torch.int64)},
}


@pytest.mark.parametrize("name", [*OTHERS, *GIVEN, "evaluation"])
def test_other_calls_run_in_the_loop(name: str) -> None:
    layer, layout, feat = quick("window")
    if name in OTHERS:
        OTHERS[name](layer)
    if name == "evaluation":  # without noise and dropout
        for each in ("noise", "noise of states", "dropout"):
            OTHERS[each](layer.eval())
    given = GIVEN[name](layout) if name in GIVEN else {}
    with gpu_stand_in():
        given = {k: x.to("cuda") if isinstance(x, Tensor) else x for k, x in given.items()}
        call = begin_call(layer.to("cuda"), layout.to("cuda"), feat.to("cuda"), **given)
        choose_backend(call)
    assert (call.program is None) == (name != "evaluation") and call.is_waking


def test_graph_ids_divide_the_record_in_the_loop() -> None:
    layer, layout, feat = quick("window", rule=EventDriven(0.1, 2))
    ids = torch.tensor([7] * 9 + [3] + [0] * 4)
    expected = layer(layout, feat, graph_ids=ids)[1]
    with gpu_stand_in() as gpu:
        found = on_device(gpu, layer, layout, feat, graph_ids=ids)[1]
    assert torch.equal(found.rounds, expected.rounds)
