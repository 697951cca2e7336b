"""All measurements on a GPU, by one program that can be stopped and called again.

    python -m graphut.experiments.bench.gpu --out results.json

Each section is saved when it is done, and none begins after `--minutes`: a second call does what is
left or has failed. Without a GPU, `--tiny` does all of it on small sizes, with the kernels in
Triton's interpreter, to see that it runs: nothing of that is a measurement, and no record is made
of it.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn

from graphut._files import read_json, write_json
from graphut.experiments.bench.attention import bench_attention, prepare_backend
from graphut.experiments.bench.implementations import PreparedRun, largest_error, reference
from graphut.experiments.bench.model import bench_model
from graphut.experiments.bench.timing import interleaved
from graphut.experiments.bench.workloads import CPU, AttentionProblem, ModelProblem, Sizes
from graphut.experiments.machine import dated_machine
from graphut.experiments.tasks import Copy
from graphut.experiments.training import Trainer, TrainingConfig
from graphut.models import UniversalTransformer, UniversalTransformerConfig
from graphut.nn import (
    AdaptiveRecurrence,
    HaltingUnit,
    MultiHeadAttention,
    PositionwiseTransition,
    UniversalTransformerStep,
)
from graphut.topology import Complete, parse

NO_MEASUREMENT = "nothing of this is a measurement: it ran without a GPU"
_MOST_SECONDS = 480  # that tests may take
Figures = dict[str, Any]
"""The figures of a section, by name."""


_CUDA, _HALF = torch.device("cuda"), (torch.bfloat16, torch.float16)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The sizes of all that is measured; with the defaults it takes a GPU two times 8 minutes."""

    device: torch.device = _CUDA
    bytes: int = 1 << 30  # that are copied
    side: int = 8192  # of the matrices
    dtypes: tuple[torch.dtype, ...] = (torch.float32, *_HALF)
    widths: tuple[int, ...] = (16, 64, 128)  # features of a head, where results are compared
    # Attention calls: a name, the topology and the sizes.
    shapes: tuple[tuple[str, str, str], ...] = (
        ("short, complete", "complete", "64x10-60"),
        ("short, causal", "causal", "64x10-60"),
        ("long, complete", "complete", "8x400"),
        ("long, causal", "causal", "8x400"),
        ("window", "window:32", "1x4096"),
        ("BigBird", "bigbird:32,32,32@0", "1x4096"),
    )
    dim: int = 512  # features of a node in attention calls, and in the model that is trained
    # Sizes and features.
    recurrences: tuple[tuple[str, int], ...] = (
        ("64x10-60", 128), ("64x10-60", 512), ("8x400", 512), ("64x512", 512),
    )  # fmt: skip
    depths: tuple[int, ...] = (1, 2, 4, 8)  # steps of all nodes
    max_steps: int = 6  # of the model that is trained
    updates: int = 300
    repeats: int = 9


# An interpreter needs half a minute for it.
TINY = Plan(
    device=CPU, bytes=1 << 10, side=4, dtypes=(torch.float32,), widths=(4,),
    shapes=(("complete", "complete", "1x3"), ("rows", "bigbird:1,1,1@0", "1x5")),
    dim=4, recurrences=(("1x2", 4),), depths=(1,), max_steps=2, updates=6, repeats=1,
)  # fmt: skip


def sections(plan: Plan) -> dict[str, Callable[[], Figures]]:
    """Return what is measured, by name, in order."""
    found: dict[str, Callable[[], Figures]] = {"ceilings": partial(ceilings, plan)}
    for dtype, width in product(plan.dtypes, plan.widths):
        name = f"exactness, {_name(dtype)}, {width} features a head"
        found[name] = partial(exactness, plan, dtype, width)
    found["waits"] = partial(waits, plan)
    for sizes, dim in plan.recurrences:
        found[f"recurrence, {sizes} tokens, d = {dim}"] = partial(recurrence, plan, sizes, dim)
    found["depth"] = partial(depth, plan)
    found["profile of five updates"] = partial(profile, plan)
    found[f"training, {plan.updates} updates"] = partial(training, plan)
    for dtype, (name, *shape) in product(plan.dtypes[:2], plan.shapes):
        key = f"attention, {name}, {_name(dtype)}, d = {plan.dim}"
        found[key] = partial(attention, plan, dtype, *shape)
    return found | {"tests": partial(marked_tests, plan)}


def ceilings(plan: Plan) -> Figures:
    """Measure how fast the device copies, and multiplies matrices."""
    source = torch.empty(plan.bytes // 4, device=plan.device)
    runs: dict[str, Callable[[], object]] = {"copy": source.clone}
    for dtype in (torch.float32, *_HALF):
        factors = torch.randn(2, plan.side, plan.side, device=plan.device).to(dtype)
        runs[_name(dtype)] = partial(torch.mm, *factors)
    times = interleaved(runs, plan.repeats, plan.device)
    figures = {"copy, GB/s, read and written": 2e-9 * plan.bytes / times.pop("copy")["median"]}
    work = 2e-12 * plan.side**3
    return figures | {f"matmul in {k}, TFLOP/s": work / t["median"] for k, t in times.items()}


def marked_tests(plan: Plan) -> Figures:
    """Run the tests that need a GPU, if this is a checkout."""
    if plan.device.type != "cuda" or not Path("tests").is_dir():
        return {"passed": None, "why": "needs a GPU, and a checkout with its tests"}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests", "-p", "no:cacheprovider"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_MOST_SECONDS)
    lines = done.stdout.strip().splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return {"passed": done.returncode == 0, "summary": lines[-1] if lines else "", "failed": failed}


def exactness(plan: Plan, dtype: torch.dtype, width: int) -> Figures:
    """Compare the kernels with float64, for all rows and for some, and with themselves."""
    errors, same = {}, True
    for (name, *shape), fraction in product(plan.shapes, (1.0, 0.25)):
        problem = _problem(plan, dtype, 2 * width, *shape, heads=2, fraction=fraction)
        run = PreparedRun(problem, prepare_backend("triton", problem))
        found, again = run(), run()
        share = "" if fraction == 1 else ", a quarter of the rows"
        errors[f"error, {name}{share}"] = largest_error(found, reference(problem))
        same &= all(map(torch.equal, found, again))
    return {**errors, "same bits twice": same}


def waits(plan: Plan) -> Figures:
    """Run recurrences where torch raises an error if the host waits for the device."""
    figures: Figures = {}
    layout = Complete().layout([3, 2] if plan.device == CPU else [60, 30, 200]).to(plan.device)
    feat = torch.randn(layout.num_src, 16, device=plan.device)
    for name, halts in (("with halting", True), ("of fixed depth", False)):
        layer = _recurrence(plan, 16, 4, HaltingUnit(16) if halts else None)
        run = partial(_pass, layer, layout, feat)
        run()  # compiles, and derives from the layout what is kept with it
        figures[name] = _does_not_wait(run, plan.device)
    return figures


def recurrence(plan: Plan, sizes: str, dim: int) -> Figures:
    """Compare the recurrence with the dense, padded model, with a schedule and without halting."""
    shape: dict[str, Any] = {"sizes": Sizes.parse(sizes), "dim": dim, "heads": _heads(dim)}
    problem = ModelProblem(topology=Complete(), device=plan.device, **shape)
    report = bench_model(problem, repeats=plan.repeats, nobody_halts=True)
    figures: Figures = {}
    for row in report["rows"]:
        name = f"{row['pass']}, halting by {row['halting']}"
        if row["reason"] is not None:
            figures[name] = row["reason"]
            continue
        figures[f"{name}, ms"] = 1e3 * row["adaptive_seconds"]["median"]
        figures[f"{name}, times faster than dense"] = row["speed_up"]
    return figures


def depth(plan: Plan) -> Figures:
    """Measure forward and backward passes of a fixed number of steps."""
    sizes, dim = plan.recurrences[-1]
    layout = Complete().layout(Sizes.parse(sizes).lengths()).to(plan.device)
    feat = torch.randn(layout.num_src, dim, device=plan.device)
    runs = {
        f"{steps} steps, ms": partial(_pass, _recurrence(plan, dim, steps), layout, feat)
        for steps in plan.depths
    }
    times = interleaved(runs, plan.repeats, plan.device)
    return {name: 1e3 * taken["median"] for name, taken in times.items()}


def profile(plan: Plan) -> Figures:
    """Return where five updates of a training spend the time of the device."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiled

    on_gpu = plan.device.type == "cuda"
    with TemporaryDirectory() as folder:
        trainer = _trainer(plan, folder)
        _fit(trainer, 1)
        kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
        with profiled(activities=kinds) as found:
            _fit(trainer, 6)
    spent = "self_device_time_total" if on_gpu else "self_cpu_time_total"
    rows = sorted(found.key_averages(), key=lambda row: -getattr(row, spent))[:20]
    return {f"{row.key}, {row.count} calls, ms": 1e-3 * getattr(row, spent) for row in rows}


def training(plan: Plan) -> Figures:
    """Train a model to copy, in the precision that training takes here."""
    with TemporaryDirectory() as folder:
        trainer = _trainer(plan, folder)
        _fit(trainer, 1)  # compiles
        start = time.perf_counter()
        _fit(trainer, plan.updates)
        seconds = time.perf_counter() - start
    totals = trainer.progress.totals
    return {
        "updates a second": (plan.updates - 1) / seconds,
        "loss": totals.loss / totals.updates,
        "labels right": totals.accuracy,
        **{f"steps, {part}": steps for part, steps in totals.steps().items()},
    }


def attention(plan: Plan, dtype: torch.dtype, topology: str, sizes: str) -> Figures:
    """Compare the kernels with other implementations of the same attention call."""
    problem = _problem(plan, dtype, plan.dim, topology, sizes, heads=_heads(plan.dim))
    report = bench_attention(problem, backends=["triton", "torch"], repeats=plan.repeats)
    figures: Figures = {}
    for row in report["rows"]:
        timed = "seconds" in row
        figures[f"{row['name']}, ms"] = 1e3 * row["seconds"]["median"] if timed else row["reason"]
        if timed and row["name"] == "triton":
            figures["triton, TFLOP/s"] = 1e-12 * row["flops_per_second"]
    return figures


def _fit(trainer: Trainer, updates: int) -> None:
    trainer.fit(lambda: trainer.progress.update >= updates)


def _trainer(plan: Plan, folder: str) -> Trainer:
    torch.manual_seed(0)
    task = Copy(epoch_size=64 * (plan.updates + 1), held_out=2)
    config = UniversalTransformerConfig(
        source_vocab=len(task.source_vocabulary),
        target_vocab=len(task.target_vocabulary),
        d_model=plan.dim,
        num_heads=_heads(plan.dim),
        d_hidden=4 * plan.dim,
        max_steps=plan.max_steps,
    )
    model = UniversalTransformer(config).to(plan.device)
    return Trainer(model, task, TrainingConfig(epochs=1), folder, report=lambda line: None)


def _recurrence(
    plan: Plan, dim: int, steps: int, halting: nn.Module | None = None
) -> AdaptiveRecurrence:
    heads, backend = (8, "auto") if plan.device.type == "cuda" else (1, "triton")
    step = UniversalTransformerStep(
        MultiHeadAttention(dim, heads, backend=backend), PositionwiseTransition(dim, 4 * dim)
    )
    return AdaptiveRecurrence(step, halting, max_steps=steps).to(plan.device)


def _pass(layer: AdaptiveRecurrence, layout: Any, feat: Tensor) -> None:
    out, _ = layer(layout, feat)
    torch.autograd.grad(out, [*layer.step.parameters()], torch.ones_like(out))


def _does_not_wait(run: Callable[[], object], device: torch.device) -> bool | str:
    """Return whether the host did not wait for the device, or where it did."""
    if device.type != "cuda":
        run()
        return "needs a GPU"
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    except RuntimeError as error:
        return str(error).strip().splitlines()[0]
    finally:
        torch.cuda.set_sync_debug_mode(mode)
    return True


def _problem(
    plan: Plan, dtype: torch.dtype, dim: int, topology: str, sizes: str, **options: Any
) -> AttentionProblem:
    shape: dict[str, Any] = {"topology": parse(topology), "sizes": Sizes.parse(sizes), "dim": dim}
    return AttentionProblem(**shape, dtype=dtype, device=plan.device, **options)


def _heads(dim: int) -> int:
    return 8 if dim % 8 == 0 else 1


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _in_json(figure: Any) -> Any:
    return str(figure) if isinstance(figure, float) and not math.isfinite(figure) else figure


def measure(plan: Plan, out: Path, command: Sequence[str], minutes: float) -> bool:
    """Do the sections that a report lacks, and save it after each; return whether it is whole."""
    machine = dated_machine(plan.device)
    report: dict[str, Any]
    report = read_json(out) if out.exists() else {"bench": "gpu", "machine": machine, "rows": []}
    if report["machine"]["gpu"] != machine["gpu"]:
        raise ValueError(f"{out} is of {report['machine']['gpu']}, not of {machine['gpu']}")
    report |= {"command": list(command), "machine": machine}
    report["note"] = None if plan.device.type == "cuda" else NO_MEASUREMENT
    report["rows"] = [row for row in report["rows"] if "failed" not in row["figures"]]
    done = {row["section"] for row in report["rows"]}
    end = time.monotonic() + 60 * minutes
    for name, run in sections(plan).items():
        if name in done:
            continue
        if time.monotonic() > end:
            print(f"time is up before {name!r}: call the program once more")
            return False
        start = time.monotonic()
        try:
            figures = {what: _in_json(figure) for what, figure in run().items()}
        except Exception as error:  # whatever one section raises, the others go on
            figures = {"failed": f"{type(error).__name__}: {error}"}
        seconds = time.monotonic() - start
        report["rows"].append({"section": name, "figures": figures, "seconds": seconds})
        write_json(out, report)
        print(f"{name} ({seconds:.0f} s): {figures}", flush=True)
    return True


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is not yet in the report; the exit status is 3 if something is left."""
    parser = argparse.ArgumentParser(prog="python -m graphut.experiments.bench.gpu")
    option = parser.add_argument
    option("--out", type=Path, required=True, help="the report, a JSON file; one there is added to")
    option("--minutes", type=float, default=8.0, help="begin no section later (default: 8)")
    option("--tiny", action="store_true", help="small sizes without a GPU, to see that it runs")
    options = parser.parse_args(argv)
    if not (options.tiny or torch.cuda.is_available()):
        parser.error(
            "there is no CUDA device here: --tiny shows that all runs, and measures nothing"
        )
    if not options.out.resolve().parent.is_dir():
        parser.error(f"--out {options.out}: there is no such folder")
    if options.tiny:
        os.environ.setdefault("TRITON_INTERPRET", "1")  # before the kernels are imported
        print(NO_MEASUREMENT)
    given = sys.argv[1:] if argv is None else argv
    command = shlex.split(parser.prog) + list(given)
    plan = TINY if options.tiny else Plan()
    return 0 if measure(plan, options.out, command, options.minutes) else 3


if __name__ == "__main__":
    sys.exit(main())
