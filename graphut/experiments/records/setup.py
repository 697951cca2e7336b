"""The setup of a run: a task, a preset, and the options that differ from the preset."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
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
    """The options that repeat a run."""

    task: str  # a key of `TASKS`
    preset: str | None  # one of the task's presets; `None` if it has no presets
    options: Mapping[str, Any]  # that differ from the preset; paths begin with `DATA/`
    seed: int = 0

    @classmethod
    def of(cls, task: str, values: Mapping[str, Any]) -> Setup:
        """Return the setup with the preset from which the fewest options differ.

        `values` contains all options of the run. Options that did not exist yet when the run was
        made are missing: they have their default values, not those of a preset.
        """
        presets: list[str | None] = [*TASK_PRESETS.get(task, {})] or [None]
        defaults = usual_options(task, None)
        setups = []
        for preset in presets:
            usual = usual_options(task, preset)
            differing = {
                name: value
                for name, value in {**defaults, **values}.items()
                if name != "seed" and value != usual[name]
            }
            setups.append(cls(task, preset, differing, values["seed"]))
        return min(setups, key=lambda setup: len(setup.options))

    def command(self) -> str:
        """Return the command line that trains the run."""
        preset = ["--preset", self.preset] if self.preset else []
        start = ["graphut", "train", self.task, *preset, *option_words(self.options)]
        return shlex.join([*start, "--seed", str(self.seed), "--out", "RUN"])


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Return options as the words of a command line."""
    words = []
    for name, value in options.items():
        if isinstance(value, bool):
            words.append(flag(name if value else f"no_{name}"))
        else:
            words += [flag(name), str(value)]
    return words


def without_folders(options: Mapping[str, Any]) -> dict[str, Any]:
    """Replace each path in the options by `DATA/` and the name of the file."""
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
    """Return the value of each option in a preset, or its default value."""
    defaults = {name: field.default for name, field in option_fields(task).items()}
    return {**defaults, **(TASK_PRESETS[task][preset] if preset else {})}
