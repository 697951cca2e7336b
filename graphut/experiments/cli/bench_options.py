"""The options of `graphut bench`, which are parsed before torch is imported."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Callable, Sequence

from graphut.experiments.bench.checks import (
    check_active,
    check_graph,
    check_heads,
    check_tokens_only,
    check_waking,
    parse_shape,
)
from graphut.experiments.cli.device import torch_is_for_cpus
from graphut.experiments.cli.options import Parser, add_device, count
from graphut.experiments.training import Run
from graphut.models.checked_config import check_different
from graphut.topology import parse

BACKENDS = ("dgl", "torch", "native", "triton")
"""The backends of attention that can be compared."""

PEERS = ("pyg", "padded", "sentences", "flex")
"""The names of other implementations of attention that the benchmark can run."""

NO_GPU = "there is no CUDA device: --tiny tests the program without one"


def read_options(command: str, argv: Sequence[str]) -> Namespace:
    """Parse the options of `graphut bench`; the argument `command` is "bench".

    In the result, `what` is the benchmark, and `command` the command line without `--results`.
    """
    parser = Parser(prog="graphut bench", description="Measure what is fastest on this machine.")
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT", parser_class=Parser)
    for name, (add_benchmark, help) in _BENCHMARKS.items():
        kind = kinds.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
        add_benchmark(kind)
        results = "append a row for each contender to this CSV file"
        kind.add_argument("--results", metavar="FILE", required=name == "gpu", help=results)
    options: Namespace = parser.parse_args(argv)
    _check(options)
    left_out = ("--results", options.results, f"--results={options.results}")
    words = [word for word in argv if word not in left_out]
    options.command = shlex.join(["graphut", command, *words])
    return options


def _check(options: Namespace) -> None:
    if options.what == "attention":
        has_nodes, has_sentences = options.nodes is not None, options.sentences is not None
        if has_nodes == has_sentences or has_sentences != (options.lengths is not None):
            raise ValueError("give --nodes N, or --sentences N with --lengths LOW-HIGH")
        sentences = f"{options.sentences}x{options.lengths}"
        options.shape = [f"1x{options.nodes}" if has_nodes else sentences]
        del options.nodes, options.sentences, options.lengths
        check_active(options.fraction)
    if options.what == "waking":
        config = Run.open(options.run).config
        check_waking(options.run, config, options.nodes, *options.scaling)
    if options.what == "layers":
        check_graph(options.nodes, options.edges, options.seeds)
    if options.what == "model":
        for spec in options.topology or []:
            check_tokens_only(parse(spec))
    if options.what == "topologies":
        check_different("topologies", [str(parse(spec)) for spec in options.specs])
    if options.what == "scaling":
        check_tokens_only(parse(options.spec))
    if options.what == "gpu" and not options.tiny and torch_is_for_cpus():
        raise ValueError(NO_GPU)
    for shape in getattr(options, "shape", None) or []:
        parse_shape(shape)
    dims = getattr(options, "dim", None) or 128
    for dim in dims if isinstance(dims, list) else [dims]:
        check_heads(dim, getattr(options, "heads", 1))


# fmt: off
def _add_attention(parser: Parser) -> None:
    option = parser.add_argument
    option("--topology", default="complete", metavar="SPEC",
           help="who attends to whom, such as window:32 (default: complete)")
    option("--nodes", type=count, metavar="N", help="number of tokens of a single sentence")
    option("--sentences", type=count, metavar="N", help="number of sentences, instead of --nodes")
    option("--lengths", metavar="LOW-HIGH", help="tokens of each sentence, such as 10-60")
    _add_sizes(parser, dim=128, heads=8, repeats=9)
    add_device(parser)
    option("--dtype", default="float32", choices=("float32", "float64", "bfloat16"),
           help="data type of the features; a call in bfloat16 is compared with one in float32 "
           "(default: float32)")
    option("--frontier", type=float, default=1.0, metavar="X", dest="fraction",
           help="share of the nodes that are active (default: 1)")
    option("--cold", action="store_true",
           help="write 64 MB of other data before each timed call, to clear the caches")
    option("--phases", action="store_true",
           help="also measure the phases of the native kernel for consecutive sources")
    option("--backends", nargs="+", metavar="NAME", choices=BACKENDS,
           help="backends of graphut to measure, such as native, torch and dgl (default: all)")
    option("--peers", nargs="*", metavar="NAME", dest="others", choices=PEERS,
           help=f"other implementations: {', '.join(PEERS)}; --peers without a name "
           "measures none (default: all)")


def _add_topologies(parser: Parser) -> None:
    option = parser.add_argument
    option("specs", nargs="+", metavar="SPEC",
           help="topologies such as window:32; the others are compared with the first")
    option("--nodes", type=count, default=4096, metavar="N",
           help="number of tokens of the sentence (default: 4096)")
    _add_sizes(parser, dim=128, heads=8, repeats=25)
    add_device(parser)


def _add_layers(parser: Parser) -> None:
    option = parser.add_argument
    option("--nodes", type=count, default=100_000, metavar="N", help="default: 100000")
    option("--edges", type=int, default=2_000_000, metavar="N", help="default: 2000000")
    option("--power-law", action="store_true", help="draw a few nodes with most of the edges")
    option("--seeds", type=count, metavar="N",
           help="two layers on sampled blocks of 10 in-neighbours for this many nodes")
    _add_sizes(parser, dim=128, heads=4, repeats=5)


def _add_model(parser: Parser) -> None:
    option = parser.add_argument
    option("--shape", action="append", metavar="SHAPE",
           help="sentences and their lengths; may be repeated (default: 64x10-60 and 8x400)")
    option("--topology", action="append", metavar="SPEC",
           help="who attends to whom; may be repeated (default: complete)")
    option("--dim", type=count, action="append", metavar="N",
           help="features; may be repeated (default: 128)")
    _add_sizes(parser, dim=None, heads=8, repeats=9)
    add_device(parser)
    option("--nobody-halts", action="store_true", help="also measure without halting")
    option("--bfloat16", action="store_true",
           help="also measure the recurrence (and the compiled model) under autocast to bfloat16")
    option("--compile", action="store_const", const="inductor", dest="compiler",
           help="also measure the padded model under torch.compile; on a GPU, with CUDA graphs")


def _add_scaling(parser: Parser) -> None:
    help = "who attends to whom (default: window:16)"
    parser.add_argument("--topology", default="window:16", metavar="SPEC", dest="spec", help=help)
    nodes = [10_000, 31_623, 100_000, 316_228, 1_000_000]
    help = "numbers of tokens (default: from 10 thousand to a million)"
    parser.add_argument("--nodes", type=count, nargs="+", default=nodes, metavar="N", help=help)
    _add_sizes(parser, dim=64, heads=8, repeats=5)
    add_device(parser)


def _add_train(parser: Parser) -> None:
    option = parser.add_argument
    option("--workloads", nargs="+", choices=("translation", "sorting", "characters"), dest="names",
           help="default: all")
    option("--compiled", action="store_true", help="also compile the layers of the plain model")
    option("--repeats", type=count, default=9, metavar="N", help="timed rounds (default: 9)")


def _add_waking(parser: Parser) -> None:
    option = parser.add_argument
    option("run", metavar="RUN", help="folder of a run of graph-distance with the preset waking")
    option("--nodes", type=count, default=10_000, metavar="N", help="default: 10000")
    option("--scaling", type=count, nargs="*", default=[], metavar="N",
           help="also measure the time of a node update and of a round on graphs of these sizes")
    option("--repeats", type=count, default=3, metavar="N", help="timed rounds (default: 3)")


def _add_parts(parser: Parser) -> None:
    option = parser.add_argument
    option("--nodes", type=count, default=200_000, metavar="N", help="default: 200000")
    option("--families", nargs="+", choices=("grid", "power-law"), default=["grid", "power-law"],
           help="kinds of graphs (default: both)")
    _add_sizes(parser, dim=32, heads=4, repeats=9)


def _add_gpu(parser: Parser) -> None:
    help = "start no section after this many minutes (default: 8)"
    parser.add_argument("--minutes", type=float, default=8.0, metavar="X", help=help)
    help = "use small sizes without a GPU, to test the program"
    parser.add_argument("--tiny", action="store_true", help=help)


def _add_sizes(parser: Parser, *, dim: int | None, heads: int, repeats: int) -> None:
    option = parser.add_argument
    if dim is not None:
        option("--dim", type=count, default=dim, metavar="N", help=f"features (default: {dim})")
    option("--heads", type=count, default=heads, metavar="N", help=f"heads (default: {heads})")
    help = f"timed rounds (default: {repeats})"
    option("--repeats", type=count, default=repeats, metavar="N", help=help)


_BENCHMARKS: dict[str, tuple[Callable[[Parser], None], str]] = {
    "attention": (_add_attention, "compare implementations of one attention call"),
    "topologies": (_add_topologies, "compare the time of an edge in attention among topologies"),
    "layers": (_add_layers, "compare graph layers with DGL's and PyG's, on the CPU"),
    "model": (_add_model, "compare the recurrence, with scheduled halting, with a padded model"),
    "scaling": (_add_scaling, "measure one attention layer on sentences of increasing length"),
    "train": (_add_train, "compare an update of three presets with one of a model in plain torch"),
    "waking": (_add_waking, "compare a model whose nodes wake with the same model, always awake"),
    "parts": (_add_parts, "compare processes of torchrun, each with a part of a graph, with one"),
    "gpu": (_add_gpu, "measure everything on a GPU, except sections that FILE already contains"),
}
