"""The command `graphut topology compare`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from graphut._files import write_json
from graphut.experiments.bench import Comparison
from graphut.experiments.bench.comparison import PARTS
from graphut.experiments.cli.device import add_device, pick_device
from graphut.experiments.cli.options import Parser, add_options, build
from graphut.experiments.tasks import TASK_PRESETS, TASKS, PairTask, preset_of
from graphut.experiments.training import TrainingConfig
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.experiments.wording import flag
from graphut.models import UniversalTransformerConfig
from graphut.plotting.figure import new_figure
from graphut.topology import parse

_PAIR_TASKS = {name: kind for name, kind in TASKS.items() if issubclass(kind, PairTask)}
_OWN = ("specs", "ACTION", "task", "seeds", "part", "out", "device")


def add_compare(parser: Parser, argv: Sequence[str]) -> None:
    """Add the options; the options of a task only if `argv` names it."""
    option = parser.add_argument
    option("specs", nargs="+", metavar="SPEC", help='such as "window:3|global:0"')
    help = f"one of {', '.join(_PAIR_TASKS)}"
    option("--task", choices=TASKS, required=True, metavar="NAME", help=help)
    help = "of the runs of each topology (default: 0)"
    option("--seeds", type=int, nargs="+", default=[0], metavar="N", help=help)
    help = "whose topology it is: encoder's, decoder's, or cross-attention's (default: encoder)"
    option("--part", choices=PARTS, default="encoder", help=help)
    option("--out", metavar="FOLDER", help="keep the runs, figures and a picture of them here")
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


def compare(arguments: Namespace) -> None:
    """Train under each topology, print a table, and draw it where asked."""
    options = {key: value for key, value in vars(arguments).items() if key not in _OWN}
    comparison = _comparison(arguments, options)
    if arguments.out is not None:
        new_figure(1, 1)  # a missing matplotlib is to be known before the training, not after it
    with TemporaryDirectory() as temporary:
        report = comparison.run(arguments.out or temporary, report=_print_to_stderr)
    print(report.text())
    if arguments.out is not None:
        write_json(Path(arguments.out, "comparison.json"), report.to_dict())
        report.draw().savefig(Path(arguments.out, "comparison.png"))


def _comparison(arguments: Namespace, options: Mapping[str, Any]) -> Comparison:
    varied = f"{arguments.part}_topology"
    if varied in options:
        raise ValueError(f"{flag(varied)} is what is compared: give its values as SPEC")
    options = {**preset_of(arguments.task), **options}
    task = build(_PAIR_TASKS[arguments.task], options)
    return Comparison(
        topologies=[parse(spec) for spec in arguments.specs],
        task=task,
        training=build(TrainingConfig, options),
        config=build(UniversalTransformerConfig, options, **PairLearner().sizes(task)),
        seeds=arguments.seeds,
        part=arguments.part,
        device=pick_device(arguments.device),
    )


def _print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _task_in(argv: Sequence[str]) -> str | None:
    parser = Parser(add_help=False)
    parser.add_argument("--task", nargs="?")
    name: str | None = parser.parse_known_args(argv)[0].task
    return name if name in TASKS else None
