"""Records of training runs: the commands that repeat them, rows of results, and an HTML report."""

from __future__ import annotations

import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from graphut._files import is_path, read_json, reraise_for_file
from graphut._version import __version__
from graphut.experiments.messages import (
    NOT_MEASURED,
    flag,
    import_words,
    is_share,
    meaning_of,
    percent,
    three_digits,
)
from graphut.experiments.mistakes import worst_examples, wrong_choices
from graphut.experiments.tasks.base import in_batches
from graphut.experiments.training import Run, TrainingConfig, run_files
from graphut.experiments.training.evaluation import Progress, progress_bar
from graphut.experiments.training.generation import Answer
from graphut.experiments.training.learners import AnyLearner
from graphut.models.checked_config import cut
from graphut.plotting.figure import new_figure
from graphut.plotting.training import draw_curve, training_curves

DATA = "DATA/"  # instead of the folder of the user's data, in commands and tables
_ANSWERED, _SHOWN = 100, 3  # test examples
_BATCH = 20  # examples whose attention is in memory at the same time
_LONGEST_TEXT = 100  # characters, in a table
_Content = dict[str, Any]  # a table or a picture, as the template reads it


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Return a list of command-line words for options, such as `["--epochs", "3"]`."""
    words = []
    for name, value in options.items():
        words.append(flag(f"no_{name}" if value is False else name))
        values = value if isinstance(value, tuple) else (value,)
        words += [] if isinstance(value, bool) else map(str, values)
    return words


def _without_folder(value: Any) -> Any:
    """Return an option with the folder of each path in it replaced by `DATA/`."""
    if not isinstance(value, str):
        return value
    parts = value.split(",")
    return ",".join(f"{DATA}{Path(part).name}" if is_path(part) else part for part in parts)


@dataclass(frozen=True)
class RunRecord:
    """The options, the training and the evaluations of a run, read from its files."""

    run: Run
    weights: int  # number of learned parameters
    progress: Progress
    training_accuracy: float  # share of correct labels in the last epoch, with teacher forcing

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
            return cls(run, weights, progress, lines[-1]["accuracy"])

    @cached_property
    def setup(self) -> tuple[str | None, Mapping[str, Any]]:
        """The preset that is nearest to the run, and the options of the run that differ from it.

        The preset is None if the task has none. In paths, `DATA/` replaces the folder. An option
        that is missing in the run, because the run is older, has its default.
        """
        kind = self.run.kind
        # In the order of `train --help`.
        options = [
            each for part in (kind, TrainingConfig, kind.config_kind) for each in fields(part)
        ]
        usual = {each.name: each.default for each in options if each.name not in kind.from_data}
        values = {**usual, **{name: _without_folder(x) for name, x in self.run.options.items()}}
        setups, presets = [], list[str | None](kind.presets) or [None]
        for preset in presets:
            given = {**usual, **(kind.presets[preset] if preset else {}), "seed": values["seed"]}
            setups.append((preset, {name: x for name, x in values.items() if x != given[name]}))
        return min(setups, key=lambda setup: len(setup[1]))

    @property
    def command(self) -> str:
        """The `graphut train` command line that repeats the run."""
        run, (preset, options) = self.run, self.setup
        words = ["graphut", "train", run.task_name]
        words += ["--preset", preset] if preset else []
        words += [*option_words(options), "--seed", str(run.training.seed), "--out", "RUN"]
        return shlex.join([*words, *import_words(run.imports)])

    @property
    def end(self) -> str | None:
        """The reason why the training ended; `None` if it was stopped."""
        return self.progress.end(self.run.training)

    @cached_property
    def evaluations(self) -> dict[str, dict[str, Any]]:
        """The contents of the evaluation files, by test set, such as "test --max-steps 1".

        Raise `ValueError` if there is no such file, or if one is damaged.
        """
        folder, evaluations = self.run.folder, {}
        unmeasured = dict.fromkeys(self.meanings)
        for path in sorted(folder.glob("evaluation-*.json"), key=lambda path: path.stem):
            evaluation = {**unmeasured, **read_json(path)}
            with reraise_for_file(path, "is no evaluation"):
                words = [evaluation["set"], *option_words(evaluation["options"])]
                evaluations[shlex.join(words)] = {"examples": evaluation["examples"], **evaluation}
        if not evaluations:
            again = shlex.join(["graphut", "eval", str(folder)])
            raise ValueError(f"{folder} has no evaluation: {again}")
        return evaluations

    @property
    def meanings(self) -> Mapping[str, str]:
        """The meaning of each metric of the task."""
        return self.run.learner_kind.metric_meanings

    @property
    def metrics(self) -> dict[str, str]:
        """The meaning of each metric that an evaluation has measured."""
        found = self.evaluations.values()
        measured = {name for each in found for name in self.meanings if each[name] is not None}
        return {name: meaning for name, meaning in self.meanings.items() if name in measured}

    @property
    def chosen(self) -> str:
        """The epoch of the saved model, in words, such as "epoch 3 of 9, the last one"."""
        last = self.run.training.choose_by == "last"
        which = "the last one" if last else "the best one on the validation set"
        return f"epoch {self.progress.best_epoch} of {self.progress.epoch}, {which}"

    def row(
        self, name: str, options: Mapping[str, Any], evaluation: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return a CSV row, by column, for the evaluation of test set `name` with `options`."""
        progress, (preset, changed) = self.progress, self.setup
        assert progress.best is not None  # an epoch is complete
        return {
            "task": self.run.task_name,
            "preset": preset,
            "options": shlex.join(option_words(changed)),
            "seed": self.run.training.seed,
            "set": name,
            "eval_options": shlex.join(option_words(options)),
            **{key: x for key, x in evaluation.items() if not isinstance(x, (list, dict))},
            "weights": self.weights,
            "updates": progress.update,
            "epochs": progress.epoch,
            "epoch_limit": self.run.training.epochs,
            "best_epoch": progress.best_epoch,
            "minutes": progress.seconds / 60,
            "training_accuracy": self.training_accuracy,
            "validation": progress.best.rank[0],
            **self.run.machine,
        }


def run_report(run: Run, device: torch.device) -> str:
    """Return the report of a run as one self-contained HTML page.

    The model answers the first 100 test examples; all other numbers come from the files of the run.
    Raise `ValueError` if no epoch is complete, the model was not evaluated, or a file is damaged.
    """
    new_figure(1, 1)  # raises ImportError without matplotlib, before the model answers
    record = RunRecord.of(run)
    evaluations, metrics = record.evaluations, record.metrics
    learner, task = run.learner(run.trained_model(device)), run.task()
    answers = [*_answers(learner, task.test[:_ANSWERED])]
    choices = [(n, choice) for n, answer in enumerate(answers, 1) for choice in answer.choices]
    mistakes = wrong_choices(choices) if choices else worst_examples([*map(_row, answers)])
    head = ["test set", f"{learner.example}s", *metrics]
    results = (
        [k, x["examples"], *(x[metric] for metric in metrics)] for k, x in evaluations.items()
    )
    groups = [
        _table(f"{name}, {key.replace('_', ' ')}", [*rows[0]], map(dict.values, rows))
        for name, evaluation in evaluations.items()
        for key, rows in evaluation.items()
        if key.startswith("by_") and rows
    ]
    seconds, (preset, options) = record.progress.seconds, record.setup
    command = record.command
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return templates.get_template("report.html").render(
        record=record,
        preset=preset,
        meaning=meaning_of(type(task)),
        duration=f"{three_digits(seconds / 60)} minutes",
        options=_table(
            "Options", ["option", "value"], ((name, str(x)) for name, x in options.items())
        ),
        curves=[*_curves(run)],
        results=_table("Metrics", head, results),
        meanings=metrics,
        groups=groups,
        answers=[*map(str, learner.answers(task.test[:_SHOWN]))],
        chosen=Counter(choice.label == choice.predicted for _, choice in choices),
        answered=len(answers),
        mistakes=[_table(*each) for each in mistakes],
        command=command,
        needs_data=DATA in command,
        percent=percent,
        version=__version__,
    )


def _curves(run: Run) -> Iterator[_Content]:
    """Yield a picture for each of the `training_curves`."""
    path = run.folder / run_files.METRICS
    with reraise_for_file(path):
        epochs = run_files.read_metrics(path)
        for title, curve in training_curves(epochs).items():
            figure = draw_curve(title, [epoch["epoch"] for epoch in epochs], curve)
            stream = BytesIO()
            figure.savefig(stream, format="png")
            yield {
                "alt": f"Curve of {title}, from {curve[0]:.3g} to {curve[-1]:.3g}.",
                "png": b64encode(stream.getvalue()).decode(),
                "width": round(96 * figure.get_figwidth()),
            }


def _answers(learner: AnyLearner, examples: Sequence[Any]) -> Iterator[Answer]:
    for batch in progress_bar(iterable=[*in_batches(examples, _BATCH)], desc="answering"):
        for answer in learner.answers(batch):
            # The records of attention are large.
            yield replace(answer, parts=[replace(part, recorded=None) for part in answer.parts])


def _row(answer: Answer) -> list[Any]:
    """Return a row for `worst_examples`."""
    text = " ".join(answer.parts[0].names)
    texts = [cut(x, _LONGEST_TEXT) or None for x in (text, answer.text, answer.correct)]
    return [float(bool(answer.is_correct) if answer.score is None else answer.score), *texts]


def _table(caption: str, head: Sequence[str], rows: Iterable[Iterable[Any]]) -> _Content:
    """Return a table of text: shares become percentages, and other floats have four digits."""

    def text(name: str, value: Any) -> str:
        if isinstance(value, float):
            return percent(value) if is_share(name) else f"{value:.4g}"
        return NOT_MEASURED if value is None else str(value)

    cells = [[*map(text, head, row)] for row in rows]
    # A column is named like a field or a metric, or by words of its own.
    names = [name.replace("_", " ") if name.isidentifier() else name for name in head]
    return {"caption": caption, "head": names, "rows": cells}
