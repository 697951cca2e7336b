"""The command `graphut bench`."""

from __future__ import annotations

import logging
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from graphut._files import write_json
from graphut.attention import BACKENDS
from graphut.attention.autotune import remember as remember_choice
from graphut.experiments.bench.attention import backend_names, bench_attention
from graphut.experiments.bench.implementations import TOLERANCE
from graphut.experiments.bench.layers import LayerProblem, bench_layers
from graphut.experiments.bench.model import bench_model
from graphut.experiments.bench.peers import PEERS
from graphut.experiments.bench.processes import bench_processes
from graphut.experiments.bench.report import Report, report_text
from graphut.experiments.bench.scaling import NODES, WINDOW, bench_scaling
from graphut.experiments.bench.workloads import AttentionProblem, ModelProblem, Sizes, parse_bounds
from graphut.experiments.cli.device import add_device, pick_device
from graphut.experiments.cli.options import Parser
from graphut.topology import Complete, parse

T = TypeVar("T")
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in TOLERANCE}
COMPLETE = Complete()
_SHAPES = [Sizes(64, 10, 60), Sizes(8, 400, 400)]


def main(argv: Sequence[str]) -> int:
    """Measure on this machine, and print a table."""
    options = vars(bench_parser().parse_args(argv))
    bench, out = _BENCHMARKS[options.pop("what")][0], options.pop("out")
    if "device" in options:
        options["device"] = pick_device(options["device"])
    if options["repeats"] < 1:
        raise ValueError(f"--repeats must be at least 1, got {options['repeats']}")
    if out is not None and not Path(out).parent.is_dir():
        raise ValueError(f"--out {out}: there is no such folder")
    with _progress_on_stderr():
        report = bench(**options)
    print(report_text(report))
    if out is not None:
        write_json(out, {"command": ["graphut", "bench", *argv], **report})
    return 0


@contextmanager
def _progress_on_stderr() -> Iterator[None]:
    log, handler = logging.getLogger("graphut.experiments.bench"), logging.StreamHandler()
    log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _attention(*, remember: bool, **options: Any) -> Report:
    if remember and options["forward_only"]:
        raise ValueError("--remember is for forward and backward: leave out --forward-only")
    how = {name: options.pop(name) for name in ("backends", "peers", "repeats", "cold")}
    sizes = _sizes(*(options.pop(name) for name in ("nodes", "sentences", "lengths")))
    problem = AttentionProblem(sizes=sizes, dtype=DTYPES[options.pop("dtype")], **options)
    report = bench_attention(problem, **how)
    if remember:
        best = report["best"]
        if best is None:
            raise ValueError("no backend gave a right result: there is nothing to remember")
        path = remember_choice(problem.kind, best)
        print(f"{best} for {problem.kind} calls is kept in {path}", file=sys.stderr)
    return report


def _sizes(nodes: int | None, sentences: int | None, lengths: tuple[int, int] | None) -> Sizes:
    """Return the size of one sentence, or of a batch."""
    if nodes is not None and sentences is None and lengths is None:
        return Sizes(1, nodes, nodes)
    if nodes is None and sentences is not None and lengths is not None:
        return Sizes(sentences, *lengths)
    raise ValueError("give --nodes N, or --sentences N with --lengths LOW-HIGH")


def _model(*, repeats: int, nobody_halts: bool, **options: Any) -> Report:
    dims, shapes = options.pop("dim") or [128], options.pop("shape") or _SHAPES
    topologies = options.pop("topology") or [COMPLETE]
    problems = [
        ModelProblem(topology=topology, sizes=sizes, dim=dim, **options)
        for dim, sizes, topology in product(dims, shapes, topologies)
    ]
    reports = [bench_model(p, repeats=repeats, nobody_halts=nobody_halts) for p in problems]
    return {**reports[0], "rows": [row for report in reports for row in report["rows"]]}


def bench_parser() -> Parser:
    """Return the parser of all benchmarks; `what` is the name of the chosen one."""
    parser = Parser(prog="graphut bench", description="Measure what is fastest on this machine.")
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT", parser_class=Parser)
    for name, (_, add_options, help, description) in _BENCHMARKS.items():
        add_options(kinds.add_parser(name, help=help, description=description))
    return parser


# fmt: off
def _add_attention(parser: Parser) -> None:
    option = parser.add_argument
    option("--topology", type=_read(parse), default=COMPLETE, metavar="SPEC",
           help="who attends to whom, such as window:32 (default: complete)")
    option("--nodes", type=int, metavar="N", help="tokens of the one sentence")
    option("--sentences", type=int, metavar="N", help="or the number of sentences")
    option("--lengths", type=_read(parse_bounds), metavar="LOW-HIGH",
           help="the tokens of each sentence, such as 10-60")
    option("--dim", type=int, default=128, metavar="N", help="features (default: 128)")
    _add_common(parser)
    option("--dtype", choices=DTYPES, default="float32", help="of features (default: float32)")
    option("--frontier", type=float, default=1.0, metavar="X", dest="fraction",
           help="share of the nodes that are active (default: 1)")
    option("--edge-bias", action="store_true", dest="biased",
           help="add a bias to each edge's scores")
    option("--forward-only", action="store_true", help="leave out the backward pass")
    option("--cold", action="store_true",
           help="do other work on 64 MB before each timed call: its data is in no cache")
    names = ", ".join(backend_names())
    option("--backends", nargs="+", choices=backend_names(), metavar="NAME",
           help=f"graphut's backends to measure (default: {names})")
    option("--peers", nargs="*", choices=[*PEERS], metavar="NAME",
           help=f"what others offer; nothing after it for none (default: {', '.join(PEERS)})")
    option("--remember", action="store_true",
           help='let backend="auto" take the fastest for such calls on this machine; kept in '
           "$GRAPHUT_CACHE or ~/.cache/graphut")


def _add_layers(parser: Parser) -> None:
    option = parser.add_argument
    option("--nodes", type=int, default=100_000, metavar="N", help="nodes (default: 100000)")
    option("--edges", type=int, default=2_000_000, metavar="N",
           help="edges without self-loops (default: 2000000)")
    option("--power-law", action="store_true", help="give few nodes most of the edges")
    option("--seeds", type=int, metavar="N",
           help="two layers over sampled blocks of 10 in-neighbours for this many nodes")
    option("--dim", type=int, default=128, metavar="N", help="features (default: 128)")
    _add_figures(parser, repeats=5, heads=4)  # the layers run on the CPU


def _add_model(parser: Parser) -> None:
    option = parser.add_argument
    option("--shape", type=_read(Sizes.parse), action="append", metavar="SHAPE",
           help="sentences and their lengths; may be repeated (default: 64x10-60 and 8x400)")
    option("--topology", type=_read(parse), action="append", metavar="SPEC",
           help="who attends to whom; may be repeated (default: complete)")
    option("--dim", type=int, action="append", metavar="N",
           help="features; may be repeated (default: 128)")
    _add_common(parser)
    _add_backend(parser)
    option("--nobody-halts", action="store_true", help="measure also with every node at the cap")


def _add_scaling(parser: Parser) -> None:
    option = parser.add_argument
    option("--topology", type=_read(parse), default=WINDOW, metavar="SPEC",
           help=f"who attends to whom (default: {WINDOW})")
    option("--nodes", type=int, nargs="+", default=NODES, metavar="N",
           help=f"tokens of each sentence (default: {' '.join(map(str, NODES))})")
    option("--dim", type=int, default=64, metavar="N", help="features (default: 64)")
    _add_common(parser, repeats=5)
    _add_backend(parser)


def _add_processes(parser: Parser) -> None:
    option = parser.add_argument
    option("--processes", type=int, default=2, metavar="N",
           help="processes of one thread each, against one of as many threads (default: 2)")
    option("--shape", type=_read(Sizes.parse), default=_SHAPES[0], metavar="SHAPE", dest="sizes",
           help=f"sentences in a batch, and their lengths (default: {_SHAPES[0]})")
    option("--dim", type=int, default=128, metavar="N", help="features (default: 128)")
    _add_figures(parser)


def _add_backend(parser: Parser) -> None:
    parser.add_argument("--backend", choices=["auto", *BACKENDS], default="auto", metavar="NAME",
                        help=f"of attention: auto, {', '.join(BACKENDS)} (default: auto)")


def _add_common(parser: Parser, repeats: int = 9) -> None:
    _add_figures(parser, repeats)
    add_device(parser)


def _add_figures(parser: Parser, repeats: int = 9, heads: int = 8) -> None:
    option = parser.add_argument
    option("--heads", type=int, default=heads, metavar="N", help=f"heads (default: {heads})")
    option("--repeats", type=int, default=repeats, metavar="N",
           help=f"timed rounds (default: {repeats})")
    option("--out", metavar="FILE", help="where to write the figures as JSON")


_BENCHMARKS: dict[str, tuple[Callable[..., Report], Callable[[Parser], None], str, str]] = {
    "attention": (
        _attention, _add_attention,
        "one attention call: every backend, and what others offer",
        "Which backend is best for a topology: one attention call, by every backend and by what "
        "others offer for it, each held against a float64 reference before it is timed.",
    ),
    "layers": (
        lambda repeats, **problem: bench_layers(LayerProblem(**problem), repeats=repeats),
        _add_layers,
        "whole graph layers beside DGL's and PyG's, on the CPU",
        "Graph layers on a random graph, or on sampled blocks of it, forward and backward: "
        "graphut's beside DotGatConv and GATConv of DGL and TransformerConv of PyG.",
    ),
    "model": (
        _model, _add_model,
        "the adaptive recurrence against a dense, padded, masked model",
        "What halting saves: 8 steps over frontiers of 1, .9, .7, .5, .3, .2, .1 and .05 of the "
        "nodes, against a dense, padded, masked model with the same weights.",
    ),
    "scaling": (
        bench_scaling, _add_scaling,
        "how one attention layer grows with the number of tokens",
        "Time and peak memory of one attention layer, forward, over longer and longer sentences, "
        "and how steep they are: a log-log slope of 1 is linear.",
    ),
    "processes": (
        bench_processes, _add_processes,
        "training by several processes of one thread against one of several threads",
        "Which is faster on the CPU: an update of a model of sequences by several processes, which "
        "share the batch, or by one process of as many threads.",
    ),
}
# fmt: on


def _read(reader: Callable[[str], T]) -> Callable[[str], T]:
    """Return a reader whose errors argparse shows in one line."""

    def read(text: str) -> T:
        try:
            return reader(text)
        except (TypeError, ValueError) as error:
            raise ArgumentTypeError(str(error).splitlines()[0]) from None

    return read
