"""The setup of a run: a task, a preset of it, and the options that differ from the preset."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any

from graphut._files import is_path
from graphut.experiments.tasks import TASK_PRESETS, TASKS
from graphut.experiments.training import TrainingConfig, learner_of
from graphut.experiments.wording import flag

DATA = "DATA/"
"""A placeholder for the folder of the user's data in commands and tables."""


@dataclass(frozen=True)
class Setup:
    """The options that repeat a run.

    Examples
    --------
    >>> Setup("sort", "fixed", {"max_steps": 3}, 1).command()
    'graphut train sort --preset fixed --max-steps 3 --seed 1 --out RUN'
    """

    task: str  # a key of `TASKS`
    preset: str | None  # one of the task's presets; `None` if it has no presets
    options: Mapping[str, Any]  # that differ from the preset; paths begin with `DATA/`
    seed: int = 0

    @classmethod
    def of(cls, task: str, values: Mapping[str, Any]) -> Setup:
        """Return the setup with the preset from which the fewest options differ.

        `values` maps the name of every option to its value in the run. An option that did not exist
        yet when the run was made may be missing: its default value is used, not that of a preset.
        """
        presets: list[str | None] = [*TASK_PRESETS.get(task, {})] or [None]
        setups = [
            cls(task, preset, _differing(task, preset, values), values["seed"])
            for preset in presets
        ]
        return min(setups, key=lambda setup: len(setup.options))

    def command(self) -> str:
        """Return the command line that trains the run."""
        preset = ["--preset", self.preset] if self.preset else []
        start = ["graphut", "train", self.task, *preset, *option_words(self.options)]
        return shlex.join([*start, "--seed", str(self.seed), "--out", "RUN"])


def training_commands(
    task: str, options: Mapping[str, Any], history: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return the command lines that train a run: the first one, and each that made it longer.

    `history` is `Run.history`.

    Examples
    --------
    >>> longer = {"longer": {"epochs": 9}, "before": {"epochs": 8}}
    >>> options = {**usual_options("sort", "small"), "epochs": 9, "seed": 0}
    >>> for line in training_commands("sort", options, [{"init_from": "runs/copy"}, longer]):
    ...     print(line)
    graphut train sort --preset small --epochs 8 --seed 0 --out RUN --init-from DATA/copy
    graphut train sort --resume --epochs 9 --out RUN
    """
    longer = [event for event in history if "longer" in event]
    begun = {**options, **(longer[0]["before"] if longer else {})}
    first = Setup.of(task, begun).command()
    for event in history:
        if "init_from" in event:
            first += f" --init-from {shlex.quote(DATA + Path(event['init_from']).name)}"
    resume = ["graphut", "train", task, "--resume"]
    more = [shlex.join([*resume, *option_words(e["longer"]), "--out", "RUN"]) for e in longer]
    return [first, *more]


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Return options as the words of a command line.

    Examples
    --------
    >>> option_words({"adaptive": False, "max_steps": 3})
    ['--no-adaptive', '--max-steps', '3']
    """
    words = []
    for name, value in options.items():
        if isinstance(value, bool):
            words.append(flag(name if value else f"no_{name}"))
        else:
            words += [flag(name), str(value)]
    return words


def without_folders(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in which each path is replaced by `DATA/` and the name of the file."""
    return {
        name: f"{DATA}{Path(value).name}" if is_path(value) else value
        for name, value in options.items()
    }


def option_fields(task: str) -> dict[str, Field[Any]]:
    """Return the dataclass field of each option of a task, in the order of the help."""
    learner = learner_of(TASKS[task])
    return {
        field.name: field
        for kind in (TASKS[task], TrainingConfig, learner.config_kind)
        for field in fields(kind)
        if field.name not in learner.from_task
    }


def usual_options(task: str, preset: str | None) -> dict[str, Any]:
    """Return the value of each option that is not given: the preset's value or the default."""
    defaults = {name: field.default for name, field in option_fields(task).items()}
    return {**defaults, **(TASK_PRESETS[task][preset] if preset else {})}


def _differing(task: str, preset: str | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that differ from a preset, in the order of the help."""
    defaults, usual = usual_options(task, None), usual_options(task, preset)
    unknown = [name for name in values if name not in defaults]
    if unknown:
        raise ValueError(f"{flag(unknown[0])} is no option of the task {task}")
    return {
        name: value
        for name, value in {**defaults, **values}.items()
        if name != "seed" and value != usual[name]
    }
