"""The options of `graphut train`."""

from __future__ import annotations

import math
from argparse import SUPPRESS, HelpFormatter, RawDescriptionHelpFormatter
from collections.abc import Collection, Sequence
from inspect import getdoc
from typing import Any

from graphut.experiments.cli.device import add_device
from graphut.experiments.cli.options import add_options, field_names
from graphut.experiments.cli.parser import Parser
from graphut.experiments.tasks import TASK_PRESETS, TASKS, Task
from graphut.experiments.tasks.presets import MEANINGS, SMALL
from graphut.experiments.training import TrainingConfig, learner_of
from graphut.experiments.training.learners import LEARNERS
from graphut.models.config import ModelConfig


def read_options(argv: Sequence[str]) -> dict[str, Any]:
    """The options of a command line, the task's name among them, wherever it stands."""
    task = argv[0] if argv and argv[0] in TASKS else _parser(None).parse_args(argv).task
    return vars(_parser(task).parse_args(argv))


def _parser(task: str | None) -> Parser:
    """The options of a task, if it is known, are in the help; those of the others are not."""
    parser = Parser(
        prog="graphut train" + (f" {task}" if task else ""),
        usage=f"graphut train {task or 'TASK'} --out FOLDER [options]",
        description=_summary(TASKS[task]) if task else "Train a Universal Transformer on a task.",
        epilog=None if task else _tasks(),
        formatter_class=HelpFormatter if task else RawDescriptionHelpFormatter,
    )
    help = SUPPRESS if task else "what to learn: see below"
    parser.add_argument("task", choices=TASKS, metavar="TASK", help=help)
    presets = TASK_PRESETS.get(task or "", {})
    _add_run_options(parser, presets)
    known: set[str] = set()
    for title, (kind, skip) in _shown_kinds(task).items():
        add_options(parser.add_argument_group(title), kind, skip, presets=presets)
        known |= set(field_names(kind))
    # Of other tasks too, so that a wrong one can be told from an unknown one.
    for kind in (*TASKS.values(), *(learner.config_kind for learner in LEARNERS.values())):
        add_options(parser, kind, known, hidden=True)
        known |= set(field_names(kind))
    return parser


def _add_run_options(parser: Parser, presets: Collection[str]) -> None:
    parser.add_argument("--out", required=True, metavar="FOLDER", help="where to keep the run")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the run that is in the folder"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        metavar="X",
        help="train no longer than so many minutes, and then be ready to be resumed (default: no "
        "limit)",
    )
    named = ", ".join(f"{name} ({MEANINGS.get(name, 'see below')})" for name in presets)
    made = f"defaults made for the task: {named} (default: {SMALL})"
    parser.add_argument("--preset", metavar="NAME", help=made if named else SUPPRESS)
    add_device(parser)


def _shown_kinds(task: str | None) -> dict[str, tuple[type[Any], Collection[str]]]:
    """The dataclasses whose fields are in the help, but for some, each under a title."""
    if task is None:
        return {"training": (TrainingConfig, ()), "model": (ModelConfig, ())}
    learner = learner_of(TASKS[task])
    return {
        "task": (TASKS[task], ()),
        "training": (TrainingConfig, ()),
        "model": (learner.config_kind, learner.from_task),
    }


def _summary(task: type[Task]) -> str:
    return (getdoc(task) or "").partition("\n\n")[0].replace("\n", " ")


def _tasks() -> str:
    lines = [f"  {name:22}{_summary(kind)}" for name, kind in TASKS.items()]
    return "\n".join(["tasks:", *lines, "", "graphut train TASK --help says more."])
