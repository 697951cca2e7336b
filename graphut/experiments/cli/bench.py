"""`graphut bench`: run a benchmark."""

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

from graphut.experiments.bench import attention, layers
from graphut.experiments.bench.attention_workload import AttentionWorkload
from graphut.experiments.bench.driver import Row, rows_text
from graphut.experiments.bench.gpu import TINY, Plan, measure_missing
from graphut.experiments.bench.model import COMPILED, bench_model, bench_small_calls
from graphut.experiments.bench.options import AttentionOptions, GpuOptions, ModelOptions
from graphut.experiments.bench.training import bench_training
from graphut.experiments.bench.waking import EVERY, bench_waking
from graphut.experiments.cli.bench_options import NO_GPU
from graphut.experiments.cli.device import pick_device
from graphut.experiments.machine import benchmark_machine
from graphut.experiments.tables import append_rows


def main(arguments: Namespace) -> int:
    """Run a benchmark and print its table; with `--results`, append its rows to a CSV file."""
    what, options, results = arguments.what, arguments.options, arguments.results
    if what == "gpu":
        return _gpu(Path(results), options)
    device = pick_device(getattr(options, "device", "cpu"))
    if hasattr(options, "device"):
        options = replace(options, device=str(device))
    run, baselines = _BENCHMARKS[what]
    rows = run(options)
    print(rows_text(rows, baselines))
    if results is not None:
        origin = {**benchmark_machine(device), "command": arguments.command}
        append_rows(results, [{"bench": what, **row, **origin} for row in rows])
    return 0


def _attention(options: AttentionOptions) -> list[Row]:
    device, dtype = torch.device(options.device or "cpu"), getattr(torch, options.dtype)
    workloads = [
        AttentionWorkload(
            spec=spec, shape=options.shape, dim=options.dim, heads=options.heads,
            device=device, dtype=dtype, fraction=options.frontier,
        )
        for spec in options.topology
    ]  # fmt: skip
    return attention.bench_attention(
        workloads, backends=options.backends, peers=options.peers, repeats=options.repeats,
        cold=options.cold, phases=options.phases,
    )  # fmt: skip


def _model(options: ModelOptions) -> list[Row]:
    if options.small:
        return bench_small_calls(repeats=options.repeats)
    rows: list[Row] = []
    schedules = (True, False) if options.nobody_halts else (True,)
    for dim, shape, spec, halting in product(
        options.dim, options.shape, options.topology, schedules
    ):
        rows += bench_model(
            spec, shape, dim=dim, heads=options.heads, halting=halting, repeats=options.repeats,
            device=torch.device(options.device or "cpu"), bfloat16=options.bfloat16,
            compiler="inductor" if options.compile else None,
        )  # fmt: skip
    return rows


_BENCHMARKS: Mapping[str, tuple[Callable[[Any], list[Row]], tuple[str, ...]]] = {
    "attention": (_attention, attention.BASELINES),
    "layers": (layers.bench_layers, layers.PEERS),
    "model": (_model, ("dense", COMPILED, "plain torch")),
    "train": (bench_training, ("plain torch",)),
    "waking": (bench_waking, (EVERY,)),
}
"""The function of each benchmark, and the contenders that the others are compared with."""


def _gpu(results: Path, options: GpuOptions) -> int:
    if options.tiny:
        os.environ.setdefault("TRITON_INTERPRET", "1")  # before the kernels are imported
        print("these figures are not a measurement: --tiny runs without a GPU", file=sys.stderr)
    elif not torch.cuda.is_available():
        raise ValueError(NO_GPU)
    plan = TINY if options.tiny else Plan()
    complete = measure_missing(plan, results, options.minutes, report=print)
    if not complete:
        print("some sections are missing: repeat the command to measure them", file=sys.stderr)
    return 0 if complete else 3
