"""The record of a run: all that is kept of it when its weights are not."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from graphut._files import read_json
from graphut.experiments.results.run_setup import (
    Setup,
    option_words,
    training_commands,
    without_folders,
)
from graphut.experiments.tasks import TASKS
from graphut.experiments.training import Run, learner_of, run_files
from graphut.experiments.training.progress import Progress
from graphut.models.config import upgrade_fields

MOST_EPOCHS = 50
"""The number of epochs of which a record has metrics, at most."""
TRAINED = 0.8
"""A run that gets fewer training labels right than this share of another's did not train."""


@dataclass(frozen=True)
class RunRecord:
    """The record of a run."""

    FORMAT: ClassVar[int] = 1

    name: str  # the name of the record's file
    task: str  # a key of `TASKS`
    task_options: dict[str, Any]
    training: dict[str, Any]
    model: dict[str, Any]
    weights: int  # number of learned parameters
    graphut: str  # the version that began the run
    machines: list[dict[str, Any]]  # by `describe_machine`
    seconds: float  # of the training, and of the validation after each epoch
    updates: int
    epochs: int
    best_epoch: int  # the epoch whose model was kept, because of the validation set
    end: str | None  # why the training was over; `None` if it was stopped
    metrics: dict[str, Any]  # columns of the metrics of at most `MOST_EPOCHS` epochs
    validation: dict[str, Any]  # the evaluation of the best epoch
    evaluations: dict[str, dict[str, Any]]  # the evaluation on each test set
    # What `graphut halting sweep` found on a test set: the evaluation under each rule.
    sweeps: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    # Where the first weights are from, and how the run was made longer. The files of records do not
    # have it: such runs are not added.
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, folder: str | Path, name: str | None = None) -> RunRecord:
        """Return the record of the run in a folder.

        Raise `ValueError` if no epoch is done yet; if no test set was judged, or one was with
        another model.
        """
        run = Run.open(folder)
        model, lines = run.model(), run_files.read_metrics(run.folder / run_files.METRICS)
        if not lines:
            raise ValueError(f"{folder}: no epoch is done yet")
        progress = Progress.replayed(lines, run.training, run.learner.evaluation)
        # Lines may be lost with the file that held them, and the run gone on.
        best = [line["epoch"] for line in lines].index(progress.best_epoch)
        record = cls(
            name=name or "",
            task=run.task_name,
            task_options=without_folders(run.task_options),
            training=asdict(run.training),
            model=model.config.to_dict(),
            weights=sum(parameter.numel() for parameter in model.parameters()),
            graphut=run.version,
            machines=run_files.read_machines(run.folder),
            seconds=lines[-1]["seconds"],
            updates=lines[-1]["update"],
            epochs=progress.epoch,
            best_epoch=progress.best_epoch,
            end=progress.end(run.training),
            metrics=thinned(lines, best),
            validation=rounded(lines[best]["validation"]),
            evaluations=rounded(_judged(run.folder, "evaluation")),
            sweeps=rounded({k: own["rows"] for k, own in _judged(run.folder, "sweep").items()}),
            history=run.history,
        )
        return record if name else replace(record, name=record.setup.name)

    @property
    def options(self) -> dict[str, Any]:
        """All options, by name."""
        from_task = learner_of(TASKS[self.task]).from_task
        model = {k: value for k, value in upgrade_fields(self.model).items() if k not in from_task}
        return {**self.task_options, **self.training, **model}

    @cached_property
    def setup(self) -> Setup:
        """The options in terms of today's presets."""
        return Setup.of(self.task, self.options)

    @property
    def on_cpu(self) -> bool:
        """True if the whole run was trained on CPUs."""
        return all(machine["gpu"] is None for machine in self.machines)

    @property
    def commands(self) -> list[str]:
        """Command lines that make the run again, and judge it."""
        training = training_commands(self.task, self.options, self.history)
        judging = _eval_commands(self.eval_options)
        if self.end is None:  # a run that is stopped does not judge
            training[-1] += f" --minutes {math.ceil(self.seconds / 60)}"
            judging = judging or [eval_command({})]
        return [*training, *judging]

    @property
    def chosen(self) -> str:
        """The epoch whose model was kept, and why."""
        last = self.training.get("choose_by") == "last"
        which = "the last one" if last else "the best one on the validation set"
        return f"epoch {self.best_epoch} of {self.epochs}, {which}"

    @property
    def eval_options(self) -> dict[str, dict[str, Any]]:
        """The options of `graphut eval` with which each test set was judged."""
        return {name: found.get("options", {}) for name, found in self.evaluations.items()}

    @property
    def rank(self) -> tuple[float, ...]:
        """The quality on the validation set; the better run has the greater rank."""
        return learner_of(TASKS[self.task]).evaluation(**self.validation).rank

    @property
    def training_accuracy(self) -> float:
        """The share of right labels in the last epoch of training, with the answers fed in."""
        return self.metrics["accuracy"][-1]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the record's file."""
        own = asdict(self)
        del own["history"]
        return {"kind": "run", "format": self.FORMAT, **own}

    @classmethod
    def from_dict(cls, name: str, state: Mapping[str, Any]) -> RunRecord:
        """Return the record that `to_dict` has written, if it is whole and of this format."""
        if state.get("format") != cls.FORMAT:
            raise ValueError(
                f"it is of format {state.get('format')!r}, and this version of graphut reads "
                f"{cls.FORMAT}: add its run again"
            )
        values = {key: value for key, value in state.items() if key not in ("kind", "format")}
        try:
            record = cls(**values)
            _ = record.setup, record.rank
        except (KeyError, TypeError) as error:
            raise ValueError(f"it is no whole record of this version: {error!r}") from None
        if record.name != name:
            raise ValueError(f"it is the record of {record.name!r}: files keep their names")
        return record


def best_run(records: Sequence[RunRecord]) -> RunRecord:
    """Return the run that is best on the validation set."""
    return max(records, key=lambda record: record.rank)


def did_not_train(record: RunRecord, others: Sequence[RunRecord]) -> bool:
    """Return whether a run has not learned what another one has, on the same data.

    Of `others` that may take no more epochs, compare with the run that got the most training labels
    right: this one got fewer than `TRAINED` times as many right, and is also worse on the
    validation set.
    """
    fair = [other for other in others if other.training["epochs"] <= record.training["epochs"]]
    most = max(fair, key=lambda other: other.training_accuracy)
    fewer = record.training_accuracy < TRAINED * most.training_accuracy
    return fewer and record.rank < most.rank


def eval_command(options: Mapping[str, Any]) -> str:
    """Return the command line that judges a run.

    Examples
    --------
    >>> eval_command({"beam_size": 4})
    'graphut eval RUN --beam-size 4'
    """
    return shlex.join(["graphut", "eval", "RUN", *option_words(options)])


def thinned(lines: Sequence[Mapping[str, Any]], best: int) -> dict[str, Any]:
    """Return the columns of a metrics file, of at most `MOST_EPOCHS` epochs.

    The first epoch, the last one and the one at `best` are never left out. All lines must have
    the same keys, but for `active`, which is left out: older versions did not write it.

    Examples
    --------
    >>> thinned([{"epoch": 1, "validation": {"x": 0.1234567}}, {"epoch": 2, "validation":
    ...     {"x": 1}}], best=1)
    {'epoch': [1, 2], 'validation': {'x': [0.123457, 1]}}
    """
    last, intervals = len(lines) - 1, MOST_EPOCHS - 2
    chosen = {round(i * last / intervals) for i in range(intervals + 1)} | {best}
    kept = [rounded(lines[index]) for index in sorted(chosen)]
    return _columns([{key: line[key] for key in line if key != "active"} for line in kept])


def rounded(value: Any) -> Any:
    """Return a value of JSON with six significant digits in each float."""
    if isinstance(value, Mapping):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _columns(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if any(line.keys() != lines[0].keys() for line in lines):
        raise ValueError("the metrics do not have the same keys in every epoch")
    columns = {key: [line[key] for line in lines] for key in lines[0]}
    return {
        key: _columns(values) if isinstance(values[0], Mapping) else values
        for key, values in columns.items()
    }


def _judged(folder: Path, what: str) -> dict[str, dict[str, Any]]:
    """Return what was found on each test set, from the files that bear this name."""
    found = {}
    for path in sorted(folder.glob(f"{what}-*.json")):
        judged = read_json(path)
        found[judged.pop("set")] = judged
    command = "graphut halting sweep" if what == "sweep" else "graphut eval"
    again = f"{command} {shlex.quote(str(folder))}"
    if not found and what == "evaluation":
        raise ValueError(f"{folder} has no evaluation: {again}")
    now = run_files.model_digest(folder)
    stale = [name for name, judged in found.items() if judged.pop("model", None) != now]
    if stale:
        raise ValueError(f"another model than {folder} has now was judged on {stale[0]}: {again}")
    return found


def _eval_commands(by_set: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the commands that judge; training ends with the set "test" and no option."""
    first = next(iter(by_set.values()))
    if by_set == {"test": {}}:
        return []
    if all(options == first for options in by_set.values()):
        return [eval_command(first)]
    return [eval_command({"set": name, **options}) for name, options in by_set.items()]
