"""The options of `graphut bench`, which are parsed before torch is imported."""

import shlex
from argparse import Namespace
from collections.abc import Sequence

from graphut.experiments.bench.options import BENCHMARKS
from graphut.experiments.cli.device import torch_is_for_cpus
from graphut.experiments.cli.options import Parser, add_options, build, word_parser
from graphut.experiments.messages import meaning_of

NO_GPU = "there is no CUDA device: --tiny tests the program without one"


def read_options(command: str, argv: Sequence[str]) -> Namespace:
    """Parse the options of `graphut bench`; `command` in the result is the line to record."""
    words = {name: meaning_of(kind) for name, kind in BENCHMARKS.items()}
    note = "graphut bench WHAT --help lists the options."
    about = "Measure what is fastest on this machine."
    named = word_parser("graphut bench", "benchmark", words, note, "WHAT", description=about)
    name = named.parse_args(argv[:1]).benchmark
    parser = Parser(prog=f"graphut bench {name}", description=words[name])
    if name == "waking":
        help = "folder of a run of graph-distance with the preset waking"
        parser.add_argument("run", metavar="RUN", help=help)
    add_options(parser, BENCHMARKS[name], ["run"])
    help = "append a row for each contender to this CSV file"
    parser.add_argument("--results", metavar="FILE", required=name == "gpu", help=help)
    values = vars(parser.parse_args(argv[1:]))
    options, results = build(BENCHMARKS[name], values), values["results"]
    if name == "gpu" and not options.tiny and torch_is_for_cpus():
        raise ValueError(NO_GPU)
    left_out = ("--results", results, f"--results={results}")
    line = shlex.join(["graphut", command, *(word for word in argv if word not in left_out)])
    return Namespace(what=name, options=options, results=results, command=line)
