from __future__ import annotations

from collections.abc import Iterator
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
from graphut.nn import (
    AdaptiveRecurrence,
    EventDriven,
    Ponder,
    Quantized,
    dense_event_driven,
)
from graphut.nn.gpu import replay, settings, waking
from graphut.topology import Patch
from tests.gpu_stand_in import StandIn, gpu_stand_in
from tests.helpers import assert_same, layout_of, name_of, normal
from tests.nn.cases import FEATS
from tests.nn.test_waking_frontier import GRAPHS, build

ROUNDS = 3  # of a program in these tests
WORK = ("computed", "edges", "all_edges")
EXTRA = {
    "grid": Patch(3, 1).layout([9]),
    "path": layout_of([(i, i + 1) for i in range(11)], 12, 12),
}


@pytest.fixture(autouse=True)
def _small_programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let kernels loop over rows, and a program have few rounds."""
    skip_unless_kernels_run()
    monkeypatch.setattr(replay, "idle", [])
    monkeypatch.setattr(waking, "PROGRAMS", 2)
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
    {"graph": "one-way", "rule": EventDriven(0.2, 40)},  # graphs rest after different rounds
    {"graph": "one-way", "rule": EventDriven(0.05, 2), "norm": "pre"},
    {"graph": "one-way", "rule": EventDriven(9.0)},  # all at rest at once
    {"graph": "rows", "rule": EventDriven(), "quantize": Quantized(1)},
    {"graph": "block", "rule": EventDriven(0.1)},
    {"graph": "grid", "rule": EventDriven(), "quantize": Quantized(3), "norm": "pre"},
    {"graph": "window", "rule": EventDriven(0.1, 2), "inject_input": False},
    *({"graph": "path", "rule": EventDriven(0.0, n), "quantize": Quantized(1)} for n in (3, 4, 30)),
]


@pytest.mark.parametrize("modes", CASES, ids=name_of)
def test_program_equals_the_masked_reference(modes: dict[str, Any]) -> None:
    same_as_reference(*quick(**modes))
