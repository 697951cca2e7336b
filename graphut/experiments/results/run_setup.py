"""The setup of a run: a task, a preset of it, and the options that differ from the preset."""

from __future__ import annotations

import re
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
"""Stands before the last part of a path, in place of the folders where the user has it."""


@dataclass(frozen=True)
class Setup:
    """The options that make a run again.

    Examples
    --------
    >>> setup = Setup("sort", "fixed", {"max_steps": 3}, 1)
    >>> setup.command()
    'graphut train sort --preset fixed --max-steps 3 --seed 1 --out RUN'
    >>> setup.name
    'sort-max_steps-3-fixed-seed1'
    """

    task: str  # a key of `TASKS`
    preset: str | None  # one of the task's presets, if it has any
    options: Mapping[str, Any]  # that differ from the preset; a path as `DATA/` and its last part
    seed: int = 0

    @classmethod
    def of(cls, task: str, values: Mapping[str, Any]) -> Setup:
        """Return the setup with the preset, of today's, from which the fewest options differ.

        `values` has every option of the run, by name. An option that is newer than the run may be
        missing: the run was made with its default, whatever a preset says today.
        """
        presets: list[str | None] = [*TASK_PRESETS.get(task, {})] or [None]
        setups = [
            cls(task, preset, _differing(task, preset, values), values["seed"])
            for preset in presets
        ]
        return min(setups, key=lambda setup: len(setup.options))

    @property
    def name(self) -> str:
        """The name of the run's record."""
        options = [f"{name}-{value}" for name, value in self.options.items() if name != "data"]
        parts = [self.task, *options, *([self.preset] if self.preset else []), f"seed{self.seed}"]
        return re.sub(r"[^a-zA-Z0-9._-]", "_", "-".join(parts).replace(DATA, ""))

    def command(self) -> str:
        """Return the command line that trains the run."""
        preset = ["--preset", self.preset] if self.preset else []
        start = ["graphut", "train", self.task, *preset, *option_words(self.options)]
        return shlex.join([*start, "--seed", str(self.seed), "--out", "RUN"])


def training_commands(
    task: str, options: Mapping[str, Any], history: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return the command lines that train a run: the first one, and those that made it longer.

    `history` is that of the run.

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
    """Return options with `DATA/` in place of the folders in which the user has a file."""
    return {
        name: f"{DATA}{Path(value).name}" if is_path(value) else value
        for name, value in options.items()
    }


def option_fields(task: str) -> dict[str, Field[Any]]:
    """Return the fields that are options of a task, in the order of the help."""
    learner = learner_of(TASKS[task])
    return {
        field.name: field
        for kind in (TASKS[task], TrainingConfig, learner.config_kind)
        for field in fields(kind)
        if field.name not in learner.from_task
    }


def usual_options(task: str, preset: str | None) -> dict[str, Any]:
    """Return the values of options that are not given: those of the preset, or the defaults."""
    defaults = {name: field.default for name, field in option_fields(task).items()}
    return {**defaults, **(TASK_PRESETS[task][preset] if preset else {})}


def _differing(task: str, preset: str | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options, in the order of the help, that differ from a preset."""
    defaults, usual = usual_options(task, None), usual_options(task, preset)
    unknown = [name for name in values if name not in defaults]
    if unknown:
        raise ValueError(f"{flag(unknown[0])} is no option of the task {task}")
    return {
        name: value
        for name, value in {**defaults, **values}.items()
        if name != "seed" and value != usual[name]
    }


def judged_on(name: str, evaluation: Mapping[str, Any]) -> str:
    """Return the name of a test set, and the options with which it was evaluated, if any.

    Examples
    --------
    >>> judged_on("test", {"options": {"beam_size": 4}})
    'test --beam-size 4'
    """
    return shlex.join([name, *option_words(evaluation.get("options", {}))])
