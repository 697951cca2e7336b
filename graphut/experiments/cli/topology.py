"""`graphut topology`: describe one topology (`show`), or train with several (`compare`)."""

from __future__ import annotations

import sys
import warnings
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from tempfile import TemporaryDirectory

from graphut.experiments.cli.options import Parser, add_device, build
from graphut.experiments.cli.run_options import add_task_options, pick_device
from graphut.experiments.comparison import compare_topologies, comparison_text
from graphut.experiments.tasks import TASKS, preset_of
from graphut.experiments.training import TrainingConfig, learner_of
from graphut.experiments.wording import pluralize
from graphut.plotting import draw_topology
from graphut.plotting.figure import check_picture_path, save_figure
from graphut.topology import Topology, parse, spec_signatures, statistics
from graphut.topology.statistics import Statistics


def main(argv: Sequence[str]) -> int:
    """Describe one topology, or compare several."""
    arguments = _parser(argv).parse_args(argv)
    if arguments.ACTION == "compare":
        _compare(arguments)
    else:
        _show(arguments)
    return 0


def _show(arguments: Namespace) -> None:
    topology = parse(arguments.spec)
    if arguments.out is not None:
        check_picture_path(arguments.out)
    numbers = statistics(topology, arguments.nodes)
    print(describe(topology, numbers))
    if numbers.min_in_degree == 0:
        warnings.warn(
            f"{topology} has nodes without in-edges among {pluralize(numbers.tokens, 'token')}: a "
            "model refuses such a sentence; add '|window:0', so that each token attends to itself",
            stacklevel=2,
        )
    if arguments.out is not None:
        save_figure(draw_topology(topology, arguments.nodes), arguments.out)


def describe(topology: Topology, numbers: Statistics) -> str:
    """Describe a topology: its number of edges, its in-degrees and its distances."""
    extra = numbers.nodes - numbers.tokens
    others = f" and {pluralize(extra, 'extra node')}" if extra else ""
    share = numbers.edges / numbers.nodes**2
    if numbers.unreachable is None:
        diameter = str(numbers.diameter)
        reach = f"after {pluralize(numbers.diameter, 'step')} each token depends on all tokens"
    else:
        diameter = f"{numbers.diameter}, over the pairs that are connected"
        reach = "token {} never depends on token {}".format(*numbers.unreachable)
    return (
        f"{topology} over {pluralize(numbers.tokens, 'token')}{others}\n"
        f"edges       {numbers.edges}, {share:.1%} of all pairs\n"
        f"in-degrees  {numbers.min_in_degree} to {numbers.max_in_degree}, "
        f"{numbers.mean_in_degree:.2f} on average\n"
        f"diameter    {diameter}\n"
        f"{reach}"
    )


def _compare(arguments: Namespace) -> None:
    """Train a model with each topology, and print a table of results."""
    options = {**preset_of(arguments.task), **vars(arguments)}
    task = build(TASKS[arguments.task], options)
    training, learner = build(TrainingConfig, options), learner_of(task)
    config = build(learner.config_kind, options, **learner.sizes(task))
    task.check_lengths(config)
    with TemporaryDirectory() as temporary:
        rows = compare_topologies(
            arguments.specs,
            task,
            training,
            config,
            arguments.out or temporary,
            seeds=arguments.seeds,
            device=pick_device(arguments.device),
            report=partial(print, file=sys.stderr, flush=True),
        )
    print(comparison_text(rows))


def _parser(argv: Sequence[str]) -> Parser:
    parser = Parser(prog="graphut topology", description="Inspect or compare topologies.")
    actions = parser.add_subparsers(
        metavar="ACTION", required=True, dest="ACTION", parser_class=Parser
    )
    show = actions.add_parser(
        "show",
        help="print the edges, in-degrees and distances of a topology, and draw it",
        description="Print edges, in-degrees and distances between tokens; draw mask and arcs. "
        f"A spec consists of {', '.join(spec_signatures())}, joined by | (or) and & (and).",
    )
    option = show.add_argument
    option("spec", help='such as "window:3|global:0"')
    option("--nodes", type=int, default=24, metavar="N", help="number of tokens (default: 24)")
    option("--out", metavar="FILE", help="draw into this file: .png, .pdf or .svg")
    compare = actions.add_parser(
        "compare",
        usage="graphut topology compare SPEC [SPEC ...] --task NAME [options]",
        help="train the same model with several topologies",
        description="Train the same model with each topology and the same seeds; print the metrics "
        "on the test set, edges, and time per batch (forward and backward). The topology is that "
        "of the encoder, or of a language model (add &causal); in a task on graphs its edges are "
        "added to those of the graph.",
    )
    _add_compare(compare, argv)
    return parser


def _add_compare(parser: Parser, argv: Sequence[str]) -> None:
    """Add the options of `compare`, with the options of the task that `argv` names."""
    option = parser.add_argument
    option("specs", nargs="+", metavar="SPEC", help='such as "window:3|global:0"')
    help = "one of the tasks that graphut train --help lists; add --help for its options"
    option("--task", choices=TASKS, required=True, metavar="NAME", help=help)
    help = "seeds of the runs of each topology (default: 0)"
    option("--seeds", type=int, nargs="+", default=[0], metavar="N", help=help)
    option("--out", metavar="FOLDER", help="keep the runs here")
    add_device(parser)
    task = next((word for word in argv if word in TASKS), None)
    if task is not None:
        add_task_options(parser, task, skip=["seed", "encoder_topology", "topology"])
