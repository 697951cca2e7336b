"""What is kept of a run when its weights are not."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from graphut._files import read_json
from graphut.experiments.results.setup import Setup, option_words, without_folders
from graphut.experiments.results.thinning import rounded, thinned
from graphut.experiments.tasks import TASKS
from graphut.experiments.training import Evaluation, Run, learner_of
from graphut.experiments.training.progress import Progress
from graphut.experiments.training.run_files import (
    METRICS,
    model_digest,
    read_machines,
    read_metrics,
)

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class RunRecord:
    """The record of a run.

    Parameters
    ----------
    name : str
        That of its file.
    task : str
        A key of `TASKS`.
    task_options, training, model : dict
        All options.
    weights : int
        Numbers that were learned.
    graphut : str
        The version that began it.
    machines : list of dict
        Where it was trained, and with what: see `describe_machine`.
    seconds : float
        Of training, and of judging each epoch.
    updates, epochs : int
        How many there were.
    best_epoch : int
        The one whose model was kept, on account of the validation set.
    end : str, optional
        Why it was over; nothing if it was stopped.
    metrics : dict
        Columns of the metrics of at most 50 epochs.
    validation : dict
        The evaluation of the best epoch.
    evaluations : dict
        What was found on each test set.
    """

    FORMAT: ClassVar[int] = 1

    name: str
    task: str
    task_options: dict[str, Any]
    training: dict[str, Any]
    model: dict[str, Any]
    weights: int
    graphut: str
    machines: list[dict[str, Any]]
    seconds: float
    updates: int
    epochs: int
    best_epoch: int
    end: str | None
    metrics: dict[str, Any]
    validation: dict[str, Any]
    evaluations: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, folder: str | Path, name: str | None = None) -> Self:
        """The record of the run in a folder.

        Raises
        ------
        FileNotFoundError
            If there is no run.
        ValueError
            If no epoch is done yet; if no test set was judged, or one was with another model.
        """
        run = Run.open(folder)
        model, lines = run.model(), read_metrics(run.folder / METRICS)
        if not lines:
            raise ValueError(f"{folder}: no epoch is done yet")
        progress = Progress.replayed(lines, run.training, run.learner.evaluation)
        found = cls(
            name=name or "",
            task=run.task_name,
            task_options=without_folders(run.task_options),
            training=asdict(run.training),
            model=model.config.to_dict(),
            weights=sum(parameter.numel() for parameter in model.parameters()),
            graphut=run.version,
            machines=read_machines(run.folder),
            seconds=lines[-1]["seconds"],
            updates=lines[-1]["update"],
            epochs=progress.epoch,
            best_epoch=progress.best_epoch,
            end=progress.end(run.training),
            metrics=thinned(lines, progress.best_epoch - 1),
            validation=rounded(lines[progress.best_epoch - 1]["validation"]),
            evaluations=rounded(_evaluations(run.folder)),
        )
        return found if name else replace(found, name=found.setup.name)

    @cached_property
    def setup(self) -> Setup:
        """What was asked for, in terms of today's presets."""
        from_task = learner_of(TASKS[self.task]).from_task
        model = {key: value for key, value in self.model.items() if key not in from_task}
        return Setup.of(self.task, {**self.task_options, **self.training, **model})

    @property
    def commands(self) -> list[str]:
        """Command lines that make the run again, and judge it."""
        if self.end is not None:
            return [self.setup.command(), *_eval_commands(self.judging)]
        # One that is stopped does not judge.
        minutes = f" --minutes {math.ceil(self.seconds / 60)}"
        judging = _eval_commands(self.judging) or [eval_command({})]
        return [self.setup.command() + minutes, *judging]

    @property
    def judging(self) -> dict[str, dict[str, Any]]:
        """The options of `graphut eval` with which each test set was judged."""
        return {name: found.get("options", {}) for name, found in self.evaluations.items()}

    @property
    def rank(self) -> tuple[float, ...]:
        """How good it was on the validation set; the better one's is the greater."""
        return _evaluation(self.task, self.validation).rank

    def to_dict(self) -> dict[str, Any]:
        """What its file holds."""
        return {"kind": "run", "format": self.FORMAT, **asdict(self)}

    @classmethod
    def from_dict(cls, name: str, state: Mapping[str, Any]) -> Self:
        """What `to_dict` has made.

        Raises
        ------
        ValueError
            If it is of another format, or not whole.
        """
        if state.get("format") != cls.FORMAT:
            raise ValueError(
                f"it is of format {state.get('format')!r}, and this version of graphut reads "
                f"{cls.FORMAT}: add its run again"
            )
        values = {key: value for key, value in state.items() if key not in ("kind", "format")}
        try:
            found = cls(**values)
            _ = found.setup, found.rank
        except (KeyError, TypeError) as error:
            raise ValueError(f"it is no whole record of this version: {error!r}") from None
        if found.name != name:
            raise ValueError(f"it is the record of {found.name!r}: files keep their names")
        return found


def _evaluation(task: str, values: Mapping[str, Any]) -> Evaluation:
    return learner_of(TASKS[task]).evaluation(**values)


def _evaluations(folder: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for path in sorted(folder.glob("evaluation-*.json")):
        evaluation = read_json(path)
        found[evaluation.pop("set")] = evaluation
    again = f"graphut eval {shlex.quote(str(folder))}"
    if not found:
        raise ValueError(f"{folder} has no evaluation: {again}")
    now = model_digest(folder)
    stale = [name for name, evaluation in found.items() if evaluation.pop("model", None) != now]
    if stale:
        raise ValueError(f"another model than {folder} has now was judged on {stale[0]}: {again}")
    return found


def _eval_commands(judging: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The commands that judge: training ends with the set "test" and no option."""
    first = next(iter(judging.values()))
    if judging == {"test": {}}:
        return []
    if all(options == first for options in judging.values()):
        return [eval_command(first)]
    return [eval_command({"set": name, **options}) for name, options in judging.items()]


def eval_command(options: Mapping[str, Any]) -> str:
    """The command line that judges a run.

    Examples
    --------
    >>> eval_command({"beam_size": 4})
    'graphut eval RUN --beam-size 4'
    """
    words = ["graphut", "eval", "RUN"]
    for name, value in options.items():
        words += option_words(name, value)
    return shlex.join(words)
