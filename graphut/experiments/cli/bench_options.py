"""The options of `graphut bench`, which are parsed before torch is imported."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from graphut.experiments.bench.options import (
    AttentionOptions,
    GpuOptions,
    LayerOptions,
    ModelOptions,
    TrainOptions,
    WakingOptions,
)
from graphut.experiments.cli.device import torch_is_for_cpus
from graphut.experiments.cli.options import Parser, add_options, build
from graphut.experiments.messages import meaning_of

NO_GPU = "there is no CUDA device: --tiny tests the program without one"

BENCHMARKS: dict[str, type[Any]] = {
    "attention": AttentionOptions,
    "layers": LayerOptions,
    "model": ModelOptions,
    "train": TrainOptions,
    "waking": WakingOptions,
    "gpu": GpuOptions,
}
"""The options of each benchmark."""


def read_options(command: str, argv: Sequence[str]) -> Namespace:
    """Parse the options of `graphut bench`; the argument `command` is "bench".

    In the result, `what` is the name of the benchmark, `options` are its options, and `command` is
    the command line without `--results`.
    """
    parser = Parser(prog="graphut bench", description="Measure what is fastest on this machine.")
    parsers = parser.add_subparsers(dest="what", required=True, metavar="WHAT", parser_class=Parser)
    for name, kind in BENCHMARKS.items():
        help = meaning_of(kind)
        subparser = parsers.add_parser(name, help=help, description=help)
        if name == "waking":
            subparser.add_argument(
                "run", metavar="RUN", help=kind.__dataclass_fields__["run"].metadata["help"]
            )
        add_options(subparser, kind, ["run"])
        results = "append a row for each contender to this CSV file"
        subparser.add_argument("--results", metavar="FILE", required=name == "gpu", help=results)
    words: Namespace = parser.parse_args(argv)
    options = build(BENCHMARKS[words.what], vars(words))
    if words.what == "gpu" and not options.tiny and torch_is_for_cpus():
        raise ValueError(NO_GPU)
    left_out = ("--results", words.results, f"--results={words.results}")
    line = shlex.join(["graphut", command, *(word for word in argv if word not in left_out)])
    return Namespace(what=words.what, options=options, results=words.results, command=line)
