"""`graphut topology show` and `graphut topology compare`."""

from __future__ import annotations

import sys
import warnings
from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from graphut._files import write_json
from graphut.experiments.cli.device import add_device, pick_device
from graphut.experiments.cli.options import Parser, add_options, build
from graphut.experiments.comparison import MODEL_PARTS, Comparison
from graphut.experiments.tasks import TASK_PRESETS, TASKS, PairTask, preset_of
from graphut.experiments.training import TrainingConfig
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.experiments.wording import counted, flag
from graphut.models import UniversalTransformerConfig
from graphut.plotting import draw_topology
from graphut.plotting.figure import check_picture_path, save_figure
from graphut.topology import Topology, parse, spec_signatures, statistics
from graphut.topology.statistics import Statistics

_PAIR_TASKS = {name: kind for name, kind in TASKS.items() if issubclass(kind, PairTask)}
_OWN = ("specs", "ACTION", "task", "seeds", "part", "out", "device")


def main(argv: Sequence[str]) -> int:
    """Describe one topology, or compare several; draw the result where asked."""
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
            f"{topology} has nodes without in-edges among {counted(numbers.tokens, 'token')}: a "
            "model refuses such a sentence; add '|window:0', so that each token sees itself",
            stacklevel=2,
        )
    if arguments.out is not None:
        save_figure(draw_topology(topology, arguments.nodes), arguments.out)


def describe(topology: Topology, numbers: Statistics) -> str:
    """Return edges, degrees and distances, a line each.

    Examples
    --------
    >>> from graphut.topology import Window
    >>> print(describe(Window(2), statistics(Window(2), 12)))
    window:2 over 12 tokens
    edges       54, 37.5% of all pairs
    in-degrees  3 to 5, 4.50 on average
    diameter    6
    everyone has heard of everyone after 6 steps
    """
    extra = numbers.nodes - numbers.tokens
    others = f" and {counted(extra, 'other node')}" if extra else ""
    share = numbers.edges / numbers.nodes**2
    if numbers.unreachable is None:
        pairs = ""
        hearing = f"everyone has heard of everyone after {counted(numbers.diameter, 'step')}"
    else:
        pairs = ", of the pairs of which one hears of the other"
        listener, other = numbers.unreachable
        hearing = f"token {listener} never hears of token {other}, in any number of steps"
    return (
        f"{topology} over {counted(numbers.tokens, 'token')}{others}\n"
        f"edges       {numbers.edges}, {share:.1%} of all pairs\n"
        f"in-degrees  {numbers.min_in_degree} to {numbers.max_in_degree}, "
        f"{numbers.mean_in_degree:.2f} on average\n"
        f"diameter    {numbers.diameter}{pairs}\n"
        f"{hearing}"
    )


def _compare(arguments: Namespace) -> None:
    """Train with each topology, and print a table."""
    options = {key: value for key, value in vars(arguments).items() if key not in _OWN}
    comparison = _comparison(arguments, options)
    with TemporaryDirectory() as temporary:
        rows = comparison.run(
            arguments.out or temporary, report=partial(print, file=sys.stderr, flush=True)
        )
    print(comparison.text(rows))
    if arguments.out is not None:
        write_json(Path(arguments.out, "comparison.json"), [row.to_dict() for row in rows])


def _comparison(arguments: Namespace, options: Mapping[str, Any]) -> Comparison:
    varied = f"{arguments.part}_topology"
    if varied in options:
        raise ValueError(f"{flag(varied)} is what is compared: give its values as SPEC")
    options = {**preset_of(arguments.task), **options}
    task = build(_PAIR_TASKS[arguments.task], options)
    return Comparison(
        topologies=arguments.specs,
        task=task,
        training=build(TrainingConfig, options),
        config=build(UniversalTransformerConfig, options, **PairLearner().sizes(task)),
        seeds=arguments.seeds,
        part=arguments.part,
        device=pick_device(arguments.device),
    )


def _parser(argv: Sequence[str]) -> Parser:
    parser = Parser(prog="graphut topology", description="Look at who attends to whom.")
    actions = parser.add_subparsers(
        metavar="ACTION", required=True, dest="ACTION", parser_class=Parser
    )
    show = actions.add_parser(
        "show",
        help="print the edges, degrees and distances of a topology, and draw it",
        description="Print edges, in-degrees and distances between tokens; draw mask and arcs. "
        f"A spec is made of: {', '.join(spec_signatures())}; joined by | (or) and & (and).",
    )
    option = show.add_argument
    option("spec", help='such as "window:3|global:0"')
    help = "tokens of the sentence (default: 24)"
    option("--nodes", type=int, default=24, metavar="N", help=help)
    option("--out", metavar="FILE", help="draw it into this file: .png, .pdf or .svg")
    comparing = actions.add_parser(
        "compare",
        usage="graphut topology compare SPEC [SPEC ...] --task NAME [options]",
        help="train the same model under several, and compare accuracy, time and steps",
        description="Train the same model under each topology with the same seeds; print "
        "accuracy on the test set, edges, time of a batch (forward and backward), and steps. Runs "
        "that are in the folder already go on where they stopped.",
    )
    _add_compare(comparing, argv)
    return parser


def _add_compare(parser: Parser, argv: Sequence[str]) -> None:
    """Add the options; the options of a task only if `argv` names it."""
    option = parser.add_argument
    option("specs", nargs="+", metavar="SPEC", help='such as "window:3|global:0"')
    help = f"one of {', '.join(_PAIR_TASKS)}"
    option("--task", choices=TASKS, required=True, metavar="NAME", help=help)
    help = "of the runs of each topology (default: 0)"
    option("--seeds", type=int, nargs="+", default=[0], metavar="N", help=help)
    help = "whose topology it is: encoder's, decoder's, or cross-attention's (default: encoder)"
    option("--part", choices=MODEL_PARTS, default="encoder", help=help)
    option("--out", metavar="FOLDER", help="keep the runs and comparison.json here")
    add_device(parser)
    task = _task_in(argv)
    if task is not None:
        if task not in _PAIR_TASKS:
            parser.error(f"{task} is no task of pairs, which are all that can be compared on")
        presets = TASK_PRESETS.get(task, {})
        add_options(parser.add_argument_group("task"), _PAIR_TASKS[task], presets=presets)
        training = parser.add_argument_group("training")
        add_options(training, TrainingConfig, ["seed"], presets=presets)
        model = parser.add_argument_group("model")
        add_options(model, UniversalTransformerConfig, PairLearner.from_task, presets=presets)


def _task_in(argv: Sequence[str]) -> str | None:
    parser = Parser(add_help=False)
    parser.add_argument("--task", nargs="?")
    name: str | None = parser.parse_known_args(argv)[0].task
    return name if name in TASKS else None
