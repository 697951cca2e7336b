"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch

from graphut.experiments.cli.options import (
    Parser,
    add_device,
    add_options,
    build,
    check_options,
    field_names,
)
from graphut.experiments.tasks import TASK_PRESETS, TASKS
from graphut.experiments.training import Run, TrainingConfig, learner_of
from graphut.experiments.training.learners import LEARNERS


def run_parser(command: str, description: str) -> Parser:
    """Return a parser with the arguments of a command on a run: its folder, and `--device`."""
    parser = Parser(prog=f"graphut {command}", description=description)
    parser.add_argument("folder", metavar="FOLDER", help="the folder of a run")
    add_device(parser)
    return parser


def add_task_options(parser: Parser, task: str, skip: Collection[str] = ()) -> None:
    """Add the options of a task, of training and of the task's model, except those in `skip`."""
    learner, presets = learner_of(TASKS[task]), TASK_PRESETS.get(task, {})
    kinds = {"task": TASKS[task], "training": TrainingConfig, "model": learner.config_kind}
    for title, kind in kinds.items():
        group = parser.add_argument_group(title)
        add_options(group, kind, [*learner.from_task, *skip], presets=presets)


def pick_device(name: str | None) -> torch.device:
    """Return the device with this name; without a name, the GPU if there is one, or the CPU.

    Raise `ValueError` if the device does not exist.

    Examples
    --------
    >>> pick_device("cpu")
    device(type='cpu')
    """
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise ValueError(f'--device must be "cpu", "cuda" or, of several, "cuda:1"; got {name!r}')
    try:
        return torch.empty(0, device=name).device
    except (AssertionError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"there is no device {name!r} here: {reason}") from None


def add_generation_options(parser: Parser, only: Collection[str] | None = None) -> None:
    """Add the options of models that generate text, or only the options named in `only`."""
    group = parser.add_argument_group("options of models that generate text")
    for kind in filter(None, (learner.generation_kind for learner in LEARNERS.values())):
        skip = [] if only is None else [name for name in field_names(kind) if name not in only]
        add_options(group, kind, skip)


def generation_options(run: Run, options: Mapping[str, Any]) -> Any:
    """Return the dataclass of the generation options for a run, or `None` if it has none.

    Raise `ValueError` for an option that the task of the run does not have.
    """
    kind = run.learner.generation_kind
    check_options(options, field_names(kind) if kind else [], f"the task {run.task_name}")
    return build(kind, options) if kind else None
