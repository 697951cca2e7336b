"""The command `graphut bench`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from graphut._files import write_json
from graphut.attention.measured import remember
from graphut.experiments.bench import (
    AttentionProblem,
    ModelProblem,
    Sizes,
    bench_attention,
    bench_model,
    bench_scaling,
)
from graphut.experiments.bench.report import Report, report_text
from graphut.experiments.cli.bench_options import COMPLETE, DTYPES, bench_parser
from graphut.experiments.cli.device import pick_device

_SHAPES = [Sizes(64, 10, 60), Sizes(8, 400, 400)]


def main(argv: Sequence[str]) -> int:
    """Measure on this machine, and print a table."""
    arguments = bench_parser().parse_args(argv)
    arguments.device = pick_device(arguments.device)
    if arguments.out is not None and not Path(arguments.out).parent.is_dir():
        raise ValueError(f"--out {arguments.out}: there is no such folder")
    report = _BENCHMARKS[arguments.what](arguments)
    print(report_text(report))
    if arguments.out is not None:
        write_json(arguments.out, {"command": ["graphut", "bench", *argv], **report})
    return 0


def _attention(arguments: Namespace) -> Report:
    if arguments.remember and arguments.forward_only:
        raise ValueError("--remember is for forward and backward: leave out --forward-only")
    fields = ("topology", "dim", "heads", "device", "fraction", "biased", "forward_only")
    dtype = DTYPES[arguments.dtype]
    problem = AttentionProblem(sizes=_sizes(arguments), dtype=dtype, **_chosen(arguments, *fields))
    options = _chosen(arguments, "backends", "peers", "repeats")
    report = bench_attention(problem, **options)
    if arguments.remember:
        best = report["best"]
        if best is None:
            raise ValueError("no backend gave a right result: there is nothing to remember")
        path = remember(problem.kind, best)
        print(f"{best} for {problem.kind} calls is kept in {path}", file=sys.stderr)
    return report


def _model(arguments: Namespace) -> Report:
    dims, shapes = arguments.dim or [128], arguments.shape or _SHAPES
    common = _chosen(arguments, "heads", "backend", "device")
    problems = [
        ModelProblem(topology=topology, sizes=sizes, dim=dim, **common)
        for dim, sizes, topology in product(dims, shapes, arguments.topology or [COMPLETE])
    ]
    options = _chosen(arguments, "repeats", "nobody_halts")
    reports = [bench_model(problem, **options) for problem in problems]
    return {**reports[0], "rows": [row for report in reports for row in report["rows"]]}


def _scaling(arguments: Namespace) -> Report:
    names = ("topology", "nodes", "dim", "heads", "backend", "device", "repeats")
    return bench_scaling(**_chosen(arguments, *names))


def _chosen(arguments: Namespace, *names: str) -> dict[str, Any]:
    return {name: getattr(arguments, name) for name in names}


def _sizes(arguments: Namespace) -> Sizes:
    """Return the size of one sentence, or of a batch."""
    nodes, sentences, lengths = arguments.nodes, arguments.sentences, arguments.lengths
    if nodes is not None and sentences is None and lengths is None:
        return Sizes(1, nodes, nodes)
    if nodes is None and sentences is not None and lengths is not None:
        return Sizes(sentences, *lengths)
    raise ValueError("give --nodes N, or --sentences N with --lengths LOW-HIGH")


_BENCHMARKS: dict[str, Callable[[Namespace], Report]] = {
    "attention": _attention,
    "model": _model,
    "scaling": _scaling,
}
