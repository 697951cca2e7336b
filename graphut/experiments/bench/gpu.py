"""The GPU benchmarks, in sections; a repeated run measures only sections that are missing."""

import csv
import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import profile

from graphut.experiments.bench.attention import bench_attention
from graphut.experiments.bench.attention_workload import AttentionWorkload
from graphut.experiments.bench.driver import (
    CPU,
    Contender,
    Row,
    largest_error,
    measure,
    rows_text,
    sentence_lengths,
)
from graphut.experiments.bench.model import bench_model
from graphut.experiments.machine import benchmark_machine
from graphut.experiments.tables import append_rows
from graphut.experiments.tasks import Copy
from graphut.experiments.training import Trainer, TrainingConfig
from graphut.experiments.training.learners.sequences import PairLearner
from graphut.models import UniversalTransformer, UniversalTransformerConfig
from graphut.nn import (
    AdaptiveRecurrence,
    EventDriven,
    FixedDepth,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    Quantized,
    UniversalTransformerStep,
)
from graphut.topology import Complete, Patch

_FAILED = "failed"  # the contender of a section that raised an error
_CUDA = torch.device("cuda")
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The sizes of all GPU benchmarks; the defaults take four minutes on an H100."""

    device: torch.device = _CUDA
    side: int = 8192  # of the matrices that are copied and multiplied
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16)  # of attention calls
    # Topology and shape of attention calls.
    calls: tuple[tuple[str, str], ...] = (
        ("complete", "64x10-60"), ("causal", "64x10-60"), ("complete", "8x400"),
        ("causal", "8x400"), ("window:32", "1x4096"), ("bigbird:32,32,32@0", "1x4096"),
    )  # fmt: skip
    dim: int = 512  # features of a node in attention calls and in the trained model
    # Shape and features of recurrences.
    recurrences: tuple[tuple[str, int], ...] = (
        ("64x10-60", 128), ("64x10-60", 512), ("8x400", 512), ("64x512", 512),
    )  # fmt: skip
    heads: int = 8
    compiler: str = "inductor"  # of the dense model
    sides_of_grids: tuple[int, ...] = (316, 1000)  # of the square grids on which nodes wake
    wake_dim: int = 64
    updates: int = 100
    repeats: int = 5


# This takes half a minute in Triton's interpreter.
TINY = Plan(
    device=CPU, side=4, dtypes=(torch.float32,), dim=4, heads=1, updates=2, repeats=1,
    compiler="eager", sides_of_grids=(2,), wake_dim=4,
    calls=(("complete", "1x3"), ("bigbird:1,1,1@0", "1x5")), recurrences=(("1x2", 4),),
)  # fmt: skip


def sections(plan: Plan) -> dict[str, Callable[[], list[Row]]]:
    """Return a dictionary from the name of each section to the function that measures it."""
    runs: dict[str, Callable[[], list[Row]]] = {"ceilings": partial(ceilings, plan)}
    for (shape, dim), halting in product(plan.recurrences, (True, False)):
        schedule = "schedule" if halting else "no halting"
        runs[f"complete, {shape}, {dim} features, {schedule}, forward"] = partial(
            bench_model, "complete", shape, dim=dim, heads=plan.heads, halting=halting,
            repeats=plan.repeats, device=plan.device, compiler=plan.compiler, bfloat16=True,
        )  # fmt: skip
    runs["kernel launches of one step"] = partial(launches, plan)
    for side in plan.sides_of_grids:
        name = f"waking, grid of {side**2:,} nodes, {plan.wake_dim} features"
        runs[name] = partial(waking, plan, name, side)
    runs[f"training, {plan.updates} updates"] = partial(training, plan)
    for dtype, (spec, shape) in product(plan.dtypes, plan.calls):
        size = {"dim": plan.dim, "heads": plan.heads}
        call = AttentionWorkload(spec=spec, shape=shape, dtype=dtype, device=plan.device, **size)
        runs[str(call)] = partial(
            bench_attention, [call], backends=["triton", "torch"], repeats=plan.repeats
        )
    return runs


def ceilings(plan: Plan) -> list[Row]:
    """Measure the rates at which the device copies and multiplies matrices."""
    factors = torch.randn(2, plan.side, plan.side, device=plan.device)
    runs: dict[str, Contender] = {"copy": factors[0].clone}
    runs |= {f"matmul, {dtype}": partial(torch.mm, *factors.to(dtype)) for dtype in _DTYPES}
    copy, *products = measure("ceilings", runs, repeats=plan.repeats, device=plan.device)
    rate = 8e-6 * plan.side**2 / copy["ms"]
    rows = [{**row, "gflop_s": 2e-6 * plan.side**3 / row["ms"]} for row in products]
    return [copy, _value("copy, GB/s read and written", rate), *rows]


def launches(plan: Plan) -> list[Row]:
    """Count the kernels that run in one step of recurrences with the sizes in `plan.recurrences`.

    They are counted on the device, since a CUDA graph launches many kernels at once.
    """
    rows = []
    for shape, dim in plan.recurrences:
        torch.manual_seed(0)
        layout = Complete().layout(sentence_lengths(shape)).to(plan.device)
        step = UniversalTransformerStep(
            MultiHeadAttention(dim, plan.heads), PositionwiseTransition(dim, 4 * dim)
        )
        layer = AdaptiveRecurrence(step, HaltingUnit(dim), max_steps=16).to(plan.device)
        feat = torch.randn(layout.num_src, dim, device=plan.device)
        for backward in (False, True):
            with torch.set_grad_enabled(backward):
                for _ in range(3):  # the first time compiles, the second records CUDA graphs
                    with profile() as profiler:
                        out, ponder = layer(layout, feat)
                        if backward:
                            (out.square().mean() + ponder.cost).backward()
                        steps = int(ponder.steps.max())
            counts = [
                event.count
                for event in profiler.key_averages()
                if event.device_type == DeviceType.CUDA and not event.key.startswith("Mem")
            ]
            name = f"{shape}, {dim} features, forward" + "+backward" * backward
            rows.append(_value(name, sum(counts) / steps))
    return rows


def waking(plan: Plan, name: str, side: int) -> list[Row]:
    """Compare event-driven updates with a model that computes every node in every round.

    With the rule `EventDriven`, a node computes only in the round after it or an in-neighbour has
    changed. The graph is a square grid with `side` nodes along a side, and `name` is the title of
    the table. The weights are random. The states are quantized, so that both results are equal.
    """
    torch.manual_seed(0)
    dim = plan.wake_dim
    step = UniversalTransformerStep(
        MultiHeadAttention(dim, plan.heads), PositionwiseTransition(dim, 2 * dim)
    )
    layer = AdaptiveRecurrence(
        step, rule=EventDriven(), max_steps=100, position_signal=None, step_signal=None,
        inject_input=True, quantize=Quantized(2),
    ).to(plan.device).eval()  # fmt: skip
    layout = Patch(side, 1).layout([side * side]).to(plan.device)
    feat = torch.randn(side * side, dim, device=plan.device)
    events = torch.no_grad()(partial(layer, layout, feat))
    out, ponder = events()
    every = copy(layer)
    every.rule, every.max_steps = FixedDepth(), len(ponder.frontier_sizes)
    run_every = torch.no_grad()(partial(every, layout, feat))
    error = largest_error([out], [run_every()[0]])
    contenders = {"every node": run_every, "event-driven": events}
    rows = measure(name, contenders, repeats=plan.repeats, device=plan.device)
    rows[1]["error"] = error
    updates = ponder.steps.double().mean()
    return [*rows, _value("rounds", every.max_steps), _value("updates of a node", updates)]


def training(plan: Plan) -> list[Row]:
    """Measure the training speed of a sequence-to-sequence model that learns to copy its input."""
    torch.manual_seed(0)
    task, lines = Copy(epoch_size=64 * plan.updates, held_out=2), list[Mapping[str, Any]]()
    sizes: dict[str, Any] = PairLearner.sizes(task)
    config = UniversalTransformerConfig(
        d_model=plan.dim, num_heads=plan.heads, d_hidden=4 * plan.dim, **sizes
    )
    model = UniversalTransformer(config).to(plan.device)
    with TemporaryDirectory() as folder:
        config_of_training = TrainingConfig(epochs=2)
        trainer = Trainer(
            model, task, config_of_training, folder, lambda line: None, on_epoch=lines.append
        )
        trainer.fit(lambda: True)  # one epoch, which compiles
        start = time.perf_counter()
        trainer.fit()
        seconds = time.perf_counter() - start
    last = lines[-1]
    return [
        _value("updates per second", plan.updates / seconds),
        _value("loss", last["loss"]),
        _value("token accuracy", last["accuracy"]),
        *(_value(f"steps, {part}", last[f"{part}_steps"]) for part in ("encoder", "decoder")),
    ]


def _value(name: str, value: float) -> Row:
    return {"contender": name, "value": float(value)}


def measure_missing(plan: Plan, out: Path, minutes: float, report: Callable[[str], object]) -> bool:
    """Measure the sections that the CSV file `out` lacks, and append their rows to the file.

    `report` is called with the table of each section. No section begins after `minutes`. Return
    False if a section failed or was not begun, else True; the next call measures these sections.
    """
    complete = True
    machine = benchmark_machine(plan.device)
    measured = _sections_in(out, machine)
    end = time.monotonic() + 60 * minutes
    for name, run in sections(plan).items():
        if name in measured:
            continue
        if time.monotonic() > end:
            return False
        try:
            rows = run()
        except Exception as error:  # the other sections still run
            rows = [{"contender": _FAILED, "note": f"{type(error).__name__}: {error}"}]
            complete = False
        common = {**machine, "command": "graphut bench gpu"}
        rows = [{"bench": "gpu", "workload": name, **row, **common} for row in rows]
        append_rows(out, rows)
        report(rows_text(rows))
    return complete


def _sections_in(path: Path, machine: Mapping[str, Any]) -> set[str]:
    """Return the workloads in a CSV file that did not fail on the GPU of `machine`."""
    if not path.exists():
        return set()
    with path.open(newline="", encoding="utf-8") as file:
        return {
            row["workload"]
            for row in csv.DictReader(file)
            if (row.get("bench"), row.get("gpu")) == ("gpu", machine["gpu"] or "")
            and row["contender"] != _FAILED
        }
