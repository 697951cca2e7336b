"""`graphut bench`: run a benchmark."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import torch

from graphut.experiments.bench import attention, layers
from graphut.experiments.bench.attention_workload import AttentionWorkload
from graphut.experiments.bench.driver import Row, rows_text
from graphut.experiments.bench.gpu import TINY, Plan, measure_missing
from graphut.experiments.bench.model import COMPILED, bench_model
from graphut.experiments.bench.parts import bench_parts
from graphut.experiments.bench.topologies import bench_topologies
from graphut.experiments.bench.training import bench_training
from graphut.experiments.bench.waking import EVERY, bench_waking
from graphut.experiments.cli.bench_options import NO_GPU
from graphut.experiments.cli.device import pick_device
from graphut.experiments.machine import benchmark_machine
from graphut.experiments.tables import append_rows
from graphut.experiments.training.processes import is_first, process_group


def main(arguments: Namespace) -> int:
    """Run a benchmark and print its table; with `--results`, append its rows to a CSV file."""
    options = vars(arguments)
    what, command, results = (options.pop(name) for name in ("what", "command", "results"))
    if what == "gpu":
        return _gpu(Path(results), **options)
    device = pick_device(options.get("device", "cpu"))
    if "device" in options:
        options["device"] = device
    run, baselines = _BENCHMARKS[what]
    with process_group():
        rows, reports = run(**options), is_first()
        print(rows_text(rows, baselines))
    if results is not None and reports:
        origin = {**benchmark_machine(device), "command": command}
        append_rows(results, [{"bench": what, **row, **origin} for row in rows])
    return 0


def _attention(topology: str, shape: list[str], dtype: str, **options: Any) -> list[Row]:
    how = {name: options.pop(name) for name in ("backends", "others", "repeats", "cold", "phases")}
    options["dtype"] = getattr(torch, dtype)
    workload = AttentionWorkload(spec=topology, shape=shape[0], **options)
    return attention.bench_attention(workload, **how)


def _model(
    topology: list[str] | None,
    shape: list[str] | None,
    dim: list[int] | None,
    nobody_halts: bool,
    **options: Any,
) -> list[Row]:
    rows: list[Row] = []
    cases = product(dim or [128], shape or ["64x10-60", "8x400"], topology or ["complete"])
    for width, batch, spec in cases:
        for halting in (True, False) if nobody_halts else (True,):
            rows += bench_model(spec, batch, dim=width, halting=halting, **options)
    return rows


_BENCHMARKS: Mapping[str, tuple[Callable[..., list[Row]], tuple[str, ...]]] = {
    "attention": (_attention, attention.BASELINES),
    "topologies": (bench_topologies, ()),
    "layers": (layers.bench_layers, layers.PEERS),
    "model": (_model, ("dense", COMPILED)),
    "scaling": (layers.bench_scaling, ()),
    "train": (bench_training, ("plain torch",)),
    "waking": (bench_waking, (EVERY,)),
    "parts": (bench_parts, ()),
}
"""The function of each benchmark, and the contenders that the others are compared with."""


def _gpu(results: Path, minutes: float, tiny: bool) -> int:
    if tiny:
        os.environ.setdefault("TRITON_INTERPRET", "1")  # before the kernels are imported
        print("these figures are not a measurement: --tiny runs without a GPU", file=sys.stderr)
    elif not torch.cuda.is_available():
        raise ValueError(NO_GPU)
    complete = measure_missing(TINY if tiny else Plan(), results, minutes, report=print)
    if not complete:
        print("some sections are missing: repeat the command to measure them", file=sys.stderr)
    return 0 if complete else 3
