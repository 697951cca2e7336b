"""The options of `graphut train`."""

from __future__ import annotations

import math
from argparse import SUPPRESS, HelpFormatter, RawDescriptionHelpFormatter
from collections.abc import Collection, Sequence
from typing import Any

from graphut.experiments.cli.eval import add_results
from graphut.experiments.cli.options import Parser, add_device, add_options
from graphut.experiments.tasks import TASK_PRESETS, TASKS, preset_of
from graphut.experiments.tasks.presets import MEANINGS, SMALL
from graphut.experiments.training import TrainingConfig, learner_of
from graphut.experiments.wording import meaning_of
from graphut.models.config import ModelConfig


def read_options(argv: Sequence[str]) -> dict[str, Any]:
    """Return the options of a command line, including the name of the task.

    Raise `ValueError` if `--rule` is given for a model without halting.
    """
    task = next((word for word in argv if word in TASKS), None)
    options: dict[str, Any] = vars(_parser(task).parse_args(argv))
    chosen = {**preset_of(options["task"], options["preset"]), **options}
    if "rule" in options and not chosen.get("adaptive", True):
        raise ValueError(
            f"--rule {options['rule']} has no effect: without halting all nodes take all steps; "
            "leave out --rule, or the preset or --no-adaptive that disables halting"
        )
    return options


def _parser(task: str | None) -> Parser:
    """Return a parser with help for the options of a task, or for the options of all tasks."""
    tasks = [f"  {name:22}{meaning_of(kind)}" for name, kind in TASKS.items()]
    parser = Parser(
        prog="graphut train" + (f" {task}" if task else ""),
        usage=f"graphut train {task or 'TASK'} --out FOLDER [options]",
        description=meaning_of(TASKS[task]) if task else "Train a Universal Transformer on a task.",
        epilog=None
        if task
        else "\n".join(["tasks:", *tasks, "", "graphut train TASK --help lists its options."]),
        formatter_class=HelpFormatter if task else RawDescriptionHelpFormatter,
    )
    help = SUPPRESS if task else "see below"
    parser.add_argument("task", choices=TASKS, metavar="TASK", help=help)
    presets = TASK_PRESETS.get(task or "", {})
    _add_run_options(parser, presets)
    kinds: dict[str, type[Any]] = {"training": TrainingConfig, "model": ModelConfig}
    from_task: Collection[str] = ()
    if task:
        learner = learner_of(TASKS[task])
        kinds = {"task": TASKS[task], **kinds, "model": learner.config_kind}
        from_task = learner.from_task
    for title, kind in kinds.items():
        add_options(parser.add_argument_group(title), kind, from_task, presets=presets)
    return parser


def _add_run_options(parser: Parser, presets: Collection[str]) -> None:
    option = parser.add_argument
    option("--out", required=True, metavar="FOLDER", help="folder of the run")
    help = "continue the run in the folder, with the options that it began with; larger --epochs "
    help += "train it longer"
    option("--resume", action="store_true", help=help)
    help = "stop after this many minutes; --resume continues the run (default: no limit)"
    option("--minutes", type=float, default=math.inf, metavar="X", help=help)
    help = "compute each batch in this many parts, one after the other, to save memory; the "
    help += "gradients are the same (default: 1)"
    option("--accumulate", type=int, default=1, metavar="K", help=help)
    named = ", ".join(f"{name} ({MEANINGS.get(name, 'see below')})" for name in presets)
    help = f"default options for the task: {named} (default: {SMALL})" if named else SUPPRESS
    option("--preset", metavar="NAME", help=help)
    add_results(parser)
    add_device(parser)
