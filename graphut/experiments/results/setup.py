"""What was asked for: a task, a preset of it, and the options that differ from the preset."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from graphut._files import is_path
from graphut.experiments.tasks import TASK_PRESETS, TASKS
from graphut.experiments.training import TrainingConfig, learner_of
from graphut.experiments.wording import flag

DATA = "DATA/"
"""What stands before the last part of a path, in place of the folders where the user has it."""


@dataclass(frozen=True)
class Setup:
    """What makes a run again.

    Parameters
    ----------
    task : str
        A key of `TASKS`.
    preset : str, optional
        One of the task's, if it has any.
    options : mapping
        Fields of task, training and model that are not as the preset has them, but for the seed.
        A path is `DATA/` and its last part.
    seed : int
        That of the training.

    Examples
    --------
    >>> setup = Setup("sort", "fixed", {"max_steps": 3}, 1)
    >>> setup.command()
    'graphut train sort --preset fixed --max-steps 3 --seed 1 --out RUN'
    >>> setup.name
    'sort-max_steps-3-fixed-seed1'
    """

    task: str
    preset: str | None
    options: Mapping[str, Any]
    seed: int = 0

    @classmethod
    def of(cls, task: str, values: Mapping[str, Any]) -> Setup:
        """That of a run: of today's presets, the one from which the fewest options differ.

        Parameters
        ----------
        task : str
            A key of `TASKS`.
        values : mapping
            Every option of the run, by name; but for those that are newer than the run, which
            went on as their default has it, whatever a preset says today.

        Raises
        ------
        ValueError
            If there is no option of a name.
        """
        presets: list[str | None] = [*TASK_PRESETS.get(task, {})] or [None]
        setups = [
            cls(task, preset, _differing(task, preset, values), values["seed"])
            for preset in presets
        ]
        return min(setups, key=lambda setup: len(setup.options))

    @property
    def name(self) -> str:
        """What its record is called."""
        options = [f"{name}-{value}" for name, value in self.options.items() if name != "data"]
        parts = [self.task, *options, *([self.preset] if self.preset else []), f"seed{self.seed}"]
        allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._"
        return "".join(c if c in allowed else "_" for c in "-".join(parts).replace(DATA, ""))

    def command(self) -> str:
        """The command line that trains it."""
        words = ["graphut", "train", self.task]
        for name, value in self.options.items():
            words += option_words(name, value)
        if self.preset:
            words[3:3] = ["--preset", self.preset]
        return shlex.join([*words, "--seed", str(self.seed), "--out", "RUN"])


def option_words(name: str, value: Any) -> list[str]:
    """An option on a command line.

    Examples
    --------
    >>> option_words("adaptive", False), option_words("max_steps", 3)
    (['--no-adaptive'], ['--max-steps', '3'])
    """
    if isinstance(value, bool):
        return [flag(name if value else f"no_{name}")]
    return [flag(name), str(value)]


def without_folders(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with `DATA/` in place of the folders in which the user has a file or a folder."""
    return {
        name: f"{DATA}{Path(value).name}" if is_path(value) else value
        for name, value in options.items()
    }


def _differing(task: str, preset: str | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """The options, in the order of the help, that are not as a preset has them."""
    defaults = _defaults(task)
    unknown = [name for name in values if name not in defaults]
    if unknown:
        raise ValueError(f"{flag(unknown[0])} is no option of the task {task}")
    usual = {**defaults, **(TASK_PRESETS[task][preset] if preset else {})}
    return {
        name: value
        for name, value in {**defaults, **values}.items()
        if name != "seed" and value != usual[name]
    }


def _defaults(task: str) -> dict[str, Any]:
    """All options, in the order of the help, and what they are without a preset."""
    learner = learner_of(TASKS[task])
    kinds = (TASKS[task], TrainingConfig, learner.config_kind)
    return {
        field.name: field.default
        for kind in kinds
        for field in fields(kind)
        if field.name not in learner.from_task
    }
