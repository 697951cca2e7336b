"""`graphut bench`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from operator import add
from pathlib import Path

from graphut._files import write_json
from graphut.attention.autotune import remember
from graphut.experiments.bench import (
    AttentionProblem,
    AttentionReport,
    ModelProblem,
    ModelReport,
    ScalingReport,
    Sizes,
    bench_attention,
    bench_model,
    bench_scaling,
)
from graphut.experiments.cli.bench_options import COMPLETE, DTYPES, bench_parser
from graphut.experiments.cli.device import pick_device

_SHAPES = [Sizes(64, 10, 60), Sizes(8, 400, 400)]


def main(argv: Sequence[str]) -> int:
    """Measure on this machine, and print a table."""
    arguments = bench_parser().parse_args(argv)
    arguments.device = pick_device(arguments.device)
    if arguments.out is not None and not Path(arguments.out).parent.is_dir():
        raise ValueError(f"--out {arguments.out}: there is no such folder")
    report = _KINDS[arguments.what](arguments)
    print(report.text())
    if arguments.out is not None:
        write_json(arguments.out, {"command": ["graphut", "bench", *argv], **report.to_dict()})
    return 0


def _attention(arguments: Namespace) -> AttentionReport:
    if arguments.remember and arguments.forward_only:
        raise ValueError("--remember is for forward and backward: leave out --forward-only")
    problem = AttentionProblem(
        topology=arguments.topology,
        sizes=_sizes(arguments),
        dim=arguments.dim,
        heads=arguments.heads,
        dtype=DTYPES[arguments.dtype],
        device=arguments.device,
        fraction=arguments.frontier,
        biased=arguments.edge_bias,
        forward_only=arguments.forward_only,
    )
    report = bench_attention(
        problem,
        backends=arguments.backends,
        peers=arguments.peers,
        repeats=arguments.repeats,
    )
    if arguments.remember:
        if report.best is None:
            raise ValueError("no backend gave a right result: there is nothing to remember")
        path = remember(problem.kind, report.best)
        print(f"{report.best} for {problem.kind} calls is kept in {path}", file=sys.stderr)
    return report


def _model(arguments: Namespace) -> ModelReport:
    cases = product(
        arguments.dim or [128], arguments.shape or _SHAPES, arguments.topology or [COMPLETE]
    )
    problems = [
        ModelProblem(
            topology=who,
            sizes=sizes,
            dim=dim,
            heads=arguments.heads,
            backend=arguments.backend,
            device=arguments.device,
        )
        for dim, sizes, who in cases
    ]
    options = {"repeats": arguments.repeats, "nobody_halts": arguments.nobody_halts}
    return reduce(add, (bench_model(problem, **options) for problem in problems))


def _scaling(arguments: Namespace) -> ScalingReport:
    names = ("topology", "nodes", "dim", "heads", "backend", "device", "repeats")
    return bench_scaling(**{name: getattr(arguments, name) for name in names})


def _sizes(arguments: Namespace) -> Sizes:
    """One sentence, or a batch."""
    nodes, sentences, lengths = arguments.nodes, arguments.sentences, arguments.lengths
    if nodes is not None and sentences is None and lengths is None:
        return Sizes(1, nodes, nodes)
    if nodes is None and sentences is not None and lengths is not None:
        return Sizes(sentences, *lengths)
    raise ValueError("give --nodes N, or --sentences N with --lengths LOW-HIGH")


_KINDS: dict[str, Callable[[Namespace], AttentionReport | ModelReport | ScalingReport]] = {
    "attention": _attention,
    "model": _model,
    "scaling": _scaling,
}
