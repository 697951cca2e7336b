"""The record of a training run: the options that repeat it, its cost, and its evaluations."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

from graphut._files import is_path, read_checked_json, reraise_for_file
from graphut.experiments.messages import flag, import_words
from graphut.experiments.tasks import TASKS
from graphut.experiments.training import Run, TrainingConfig, run_files
from graphut.experiments.training.evaluation import Evaluation
from graphut.experiments.training.progress import Progress

DATA = "DATA/"  # in place of the folder of the user's data, in commands and tables


@dataclass(frozen=True)
class Setup:
    """The task, the preset and the options with which `graphut train` repeats a run."""

    task: str  # a key of `TASKS`: a name, or a file
    preset: str | None  # one of the task's presets; `None` if it has no presets
    options: Mapping[str, Any]  # that differ from the preset; paths begin with `DATA/`
    seed: int = 0
    imports: Sequence[str] = ()  # modules with the user's own task, topology or rule

    @classmethod
    def of(cls, task: str, values: Mapping[str, Any], imports: Sequence[str] = ()) -> Setup:
        """Return the setup of a run, with the preset that needs the fewest further options.

        An option that is missing in `values`, because the run is older, has its default.
        """
        presets: list[str | None] = [*TASKS[task].presets] or [None]
        values = {**usual_options(task, None), **values}
        setups = []
        for preset in presets:
            usual = {**usual_options(task, preset), "seed": values["seed"]}
            differing = {name: x for name, x in values.items() if x != usual[name]}
            setups.append(cls(task, preset, differing, values["seed"], imports))
        return min(setups, key=lambda setup: len(setup.options))

    def command(self) -> str:
        """Return the `graphut train` command line that repeats the run."""
        preset = ["--preset", self.preset] if self.preset else []
        start = ["graphut", "train", self.task, *preset, *option_words(self.options)]
        end = ["--seed", str(self.seed), "--out", "RUN", *import_words(self.imports)]
        return shlex.join([*start, *end])


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Return a list of command-line words for options, such as `["--epochs", "3"]`."""
    words = []
    for name, value in options.items():
        if isinstance(value, bool):
            words.append(flag(name if value else f"no_{name}"))
        else:
            words += [flag(name), str(value)]
    return words


def without_folders(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with the folder of each path in them replaced by `DATA/`."""

    def strip(path: str) -> str:
        return f"{DATA}{Path(path).name}" if is_path(path) else path

    return {
        name: ",".join(map(strip, value.split(","))) if isinstance(value, str) else value
        for name, value in options.items()
    }


def usual_options(task: str, preset: str | None) -> dict[str, Any]:
    """Return a dictionary from option names to the values of the preset, or to the defaults."""
    kinds = (kind := TASKS[task], TrainingConfig, kind.config_kind)  # ordered as in `train --help`
    options = (field for kind in kinds for field in fields(kind))
    defaults = {each.name: each.default for each in options if each.name not in kind.from_data}
    return {**defaults, **(kind.presets[preset] if preset else {})}


@dataclass(frozen=True)
class RunRecord:
    """The options, the training and the evaluations of a run, read from its files."""

    run: Run
    weights: int  # number of learned parameters
    machines: list[dict[str, Any]]  # by `describe_machine`
    seconds: float  # of training, with the validation after each epoch
    updates: int
    epochs: int
    best_epoch: int  # the epoch whose model was kept
    end: str | None  # why the training ended; `None` if it was stopped
    training_accuracy: float  # share of correct labels in the last epoch, with teacher forcing
    validation: Evaluation  # after the best epoch

    @classmethod
    def of(cls, run: Run) -> RunRecord:
        """Read the record of a run; raise `ValueError` if no epoch is complete."""
        path = run.folder / run_files.METRICS
        lines = run_files.read_metrics(path)
        if not lines:
            raise ValueError(f"{run.folder}: no epoch is complete yet")
        weights = sum(parameter.numel() for parameter in run.model().parameters())
        with reraise_for_file(path):
            progress = Progress.replayed(lines, run.training, run.learner_kind.evaluation)
            assert progress.best is not None  # there is at least one line
            return cls(
                run=run,
                weights=weights,
                machines=run_files.read_machines(run.folder),
                seconds=float(lines[-1]["seconds"]),
                updates=lines[-1]["update"],
                epochs=progress.epoch,
                best_epoch=progress.best_epoch,
                end=progress.end(run.training),
                training_accuracy=lines[-1]["accuracy"],
                validation=progress.best,
            )

    @property
    def options(self) -> dict[str, Any]:
        """All options of the run; in paths, `DATA/` replaces the folder."""
        return without_folders(self.run.options)

    @cached_property
    def setup(self) -> Setup:
        """The task, the preset, and the options that differ from the preset."""
        return Setup.of(self.run.task_name, self.options, self.run.imports)

    @cached_property
    def evaluations(self) -> dict[str, dict[str, Any]]:
        """The contents of the evaluation files, by test set, such as "test --max-steps 1".

        Raise `ValueError` if there is no such file, or if one is damaged or about another model.
        """
        folder, evaluations = self.run.folder, {}
        again = ["graphut", "eval", str(folder), *import_words(self.run.imports)]
        digest = run_files.model_digest(folder)
        defaults: dict[str, Any] = {
            **dict.fromkeys(self.run.learner_kind.metric_meanings),
            "options": {},
        }
        for path in sorted(folder.glob("evaluation-*.json"), key=lambda path: path.stem):
            evaluation = {**defaults, **read_checked_json(path)}
            with reraise_for_file(path):
                _check_types(evaluation)
            words = option_words(evaluation["options"])
            if evaluation.pop("model", None) != digest:
                command = shlex.join([*again, *words])
                raise ValueError(
                    f"{path} is the evaluation of another model: {command}, or remove the file"
                )
            evaluations[shlex.join([evaluation["set"], *words])] = evaluation
        if not evaluations:
            raise ValueError(f"{folder} has no evaluation: {shlex.join(again)}")
        return evaluations

    @property
    def metrics(self) -> dict[str, str]:
        """The meaning of each metric that an evaluation has measured."""
        return {
            name: meaning
            for name, meaning in self.run.learner_kind.metric_meanings.items()
            if any(evaluation[name] is not None for evaluation in self.evaluations.values())
        }

    @property
    def results(self) -> list[list[Any]]:
        """A row for each evaluation: test set with options, number of examples, and metrics."""
        return [
            [name, evaluation["examples"], *(evaluation[metric] for metric in self.metrics)]
            for name, evaluation in self.evaluations.items()
        ]

    @property
    def commands(self) -> list[str]:
        """The command lines that train and evaluate the run again."""
        # `graphut train` does not evaluate a stopped run.
        limit = "" if self.end is not None else f" --minutes {ceil(self.seconds / 60)}"
        return [self.setup.command() + limit, *self._eval_commands()]

    @property
    def chosen(self) -> str:
        """The epoch of the saved model, in words, such as "epoch 3 of 9, the last one"."""
        last = self.run.training.choose_by == "last"
        which = "the last one" if last else "the best one on the validation set"
        return f"epoch {self.best_epoch} of {self.epochs}, {which}"

    def row(
        self, name: str, options: Mapping[str, Any], evaluation: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return a CSV row, by column, for the evaluation of test set `name` with `options`."""
        numbers = {key: x for key, x in evaluation.items() if not isinstance(x, (list, dict))}
        machines = {
            key: "; ".join(dict.fromkeys(str(m[key]) for m in self.machines if m.get(key)))
            for key in dict.fromkeys(key for machine in self.machines for key in machine)
        }
        return {
            **self._key(name, options),
            **numbers,
            "weights": self.weights,
            "updates": self.updates,
            "epochs": self.epochs,
            "epoch_limit": self.run.training.epochs,
            "best_epoch": self.best_epoch,
            "minutes": self.seconds / 60,
            "training_accuracy": self.training_accuracy,
            "validation": self.validation.rank[0],
            **machines,
        }

    def curve_rows(
        self, name: str, options: Mapping[str, Any], evaluation: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """Return CSV rows, as from `row`, one per group of examples, such as those of a length."""
        return [
            {**self._key(name, options), "by": key.removeprefix("by_"), **part}
            for key, parts in evaluation.items()
            if key.startswith("by_")
            for part in parts
        ]

    def _key(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "task": self.setup.task,
            "preset": self.setup.preset,
            "options": shlex.join(option_words(self.setup.options)),
            "seed": self.setup.seed,
            "set": name,
            "eval_options": shlex.join(option_words(options)),
        }

    def _eval_commands(self) -> list[str]:
        """Return commands that repeat the evaluations; none if `graphut train` already does so."""
        by_options: dict[tuple[str, ...], list[str]] = {}
        for each in self.evaluations.values():
            by_options.setdefault(tuple(option_words(each["options"])), []).append(each["set"])
        sets = {name for names in by_options.values() for name in names}
        return [
            shlex.join(["graphut", "eval", "RUN", *which, *words, *import_words(self.run.imports)])
            for words, names in by_options.items()
            if words or names != ["test"] or self.end is None
            for which in ([[]] if sets == {*names} else [["--set", name] for name in names])
        ]


def _check_types(evaluation: Mapping[str, Any]) -> None:
    for name, kind in (("set", str), ("examples", int), ("options", dict)):
        value = evaluation.get(name)
        if not isinstance(value, kind):
            raise ValueError(f"{name} must be of type {kind.__name__}, got {value!r:.50}")
