"""Evaluations of a model, the sums over an epoch, and the progress of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from tqdm import tqdm

from graphut.experiments.tasks.base import in_batches
from graphut.experiments.training.config import TrainingConfig
from graphut.experiments.training.processes import all_gather, is_first, shard

if TYPE_CHECKING:
    from graphut.experiments.training.learners import Outcome

S = TypeVar("S")
T = TypeVar("T")
K = TypeVar("K", str, int)


@dataclass(frozen=True)
class Evaluation:
    """The metrics of a model on a set of examples."""

    metrics: dict[str, Any]  # by name, in the order of the file
    rank: tuple[float, ...]  # the better of two evaluations has the greater tuple
    score: float  # compared with `TrainingConfig.target_accuracy`
    summary: str  # one line of text

    def rank_by(self, choice: str) -> tuple[float, ...]:
        """Return a sort key, greater if better: a metric, or `rank` for "task" and "last"."""
        if choice in ("task", "last"):
            return self.rank
        if (value := self.metrics.get(choice)) is None:
            names = ", ".join(name for name, x in self.metrics.items() if x is not None)
            raise ValueError(f"choose_by is {choice!r}, but the metrics here are {names}")
        return (-value if choice == "mae" else value,)

    def __getitem__(self, name: str) -> Any:
        """Return the metric with this name."""
        return self.metrics[name]

    def __str__(self) -> str:
        """Return the summary of the metrics, a line of text."""
        return self.summary


def score_batches(
    score: Callable[[list[T]], S],
    examples: Sequence[T],
    batch_size: int,
    length: Callable[[T], int],
) -> list[S]:
    """Sort examples by length, and return the result of `score` for each batch, shortest first.

    Processes share the batches, and each returns all results. Raise `ValueError` without examples.

    Examples
    --------
    >>> score_batches(" ".join, ["ccc", "a", "bb"], 2, len)
    ['a bb', 'ccc']
    """
    if not examples:
        raise ValueError("there are no examples to evaluate on")
    batches = shard(list(in_batches(sorted(examples, key=length), batch_size)))
    scores = []
    with progress_bar(total=sum(map(len, batches)), desc="evaluating") as bar:
        for batch in batches:
            scores.append(score(batch))
            bar.update(len(batch))
    return all_gather(scores)


def answer_in_batches(
    answer: Callable[[list[T]], Iterable[S]],
    examples: Sequence[T],
    batch_size: int,
    length: Callable[[T], int],
) -> list[tuple[T, S]]:
    """Return pairs `(example, prediction)` in the given order; `answer` predicts for a batch.

    Batches, of similar lengths, are shared among processes as in `score_batches`.
    """

    def score(batch: list[int]) -> list[tuple[int, S]]:
        return [*zip(batch, answer([examples[index] for index in batch]), strict=True)]

    scored = score_batches(score, range(len(examples)), batch_size, lambda n: length(examples[n]))
    answers = dict(chain.from_iterable(scored))
    return [(example, answers[index]) for index, example in enumerate(examples)]


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return a dictionary, sorted by key, from each `key(item)` to the list of its items."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return dict(sorted(groups.items()))


def rows_by(
    name: str,
    items: Iterable[T],
    key: Callable[[T], K],
    metrics: Callable[[list[T]], Mapping[str, Any]],
    count: str = "examples",
) -> list[dict[str, Any]]:
    """Return a row for each `key(item)`: the key as `name`, the number of items, and metrics."""
    groups = grouped(items, key).items()
    return [{name: value, count: len(group), **metrics(group)} for value, group in groups]


def progress_bar(**options: Any) -> tqdm[Any]:
    """Return a progress bar of at most 80 columns; only process 0 draws it, on a terminal."""
    columns = min(get_terminal_size().columns, 80)
    return tqdm(**options, ncols=columns, leave=False, disable=None if is_first() else True)


@dataclass
class Totals:
    """Sums over an epoch."""

    updates: int = 0
    loss: float = 0.0
    labels: int = 0
    correct: int = 0
    # For "encoder" and "decoder": the nodes (tokens, and extra nodes of the topology), their steps.
    parts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def add(self, parts: Sequence[str], numbers: Sequence[float]) -> None:
        """Add the loss and counts of one update (`numbers`); `parts` names encoder and decoder."""
        correct, labels, *sums = map(int, numbers[1:])
        self.updates += 1
        self.loss += numbers[0]
        self.correct += correct
        self.labels += labels
        for index, name in enumerate(parts):
            nodes, steps = self.parts.get(name, (0, 0))
            self.parts[name] = nodes + sums[2 * index], steps + sums[2 * index + 1]

    @property
    def accuracy(self) -> float:
        """Return the accuracy over the labels, with teacher forcing."""
        return self.correct / self.labels

    def steps(self) -> dict[str, float]:
        """Return a dictionary from "encoder" and "decoder" to the mean steps of their nodes."""
        return {name: steps / nodes for name, (nodes, steps) in self.parts.items()}

    def means(self) -> dict[str, Any]:
        """Return a dictionary of means over the epoch, for the file `metrics.jsonl`."""
        return {
            "loss": self.loss / self.updates,
            "accuracy": self.accuracy,
            **{f"{name}_steps": steps for name, steps in self.steps().items()},
        }

    def __str__(self) -> str:
        """Return loss, accuracy and mean steps as one line."""
        loss = self.loss / self.updates
        steps = "/".join(f"{steps:.2f}" for steps in self.steps().values())
        names = f" ({'/'.join(self.parts)})" * (len(self.parts) > 1)
        return f"loss {loss:.4f}, accuracy {self.accuracy:.2%}, steps {steps}{names}"


@torch.no_grad()
def update_numbers(loss: Tensor, outcome: Outcome) -> Tensor:
    """Return the loss and the counts, below 2^53, as a float64 tensor for `Totals.add`."""
    zero = loss.new_zeros(1, dtype=torch.float64)
    numbers: list[Tensor | int] = [loss, outcome.correct, outcome.labels]
    for ponder in outcome.ponders.values():
        numbers += [ponder.steps.numel(), ponder.steps.sum()]
    return torch.cat([zero + number for number in numbers])


IN_A_ROW = 3
"""Number of epochs in a row that must reach the target accuracy; a single one may be luck."""


@dataclass
class Progress:
    """The number of epochs and updates that a run has done, and its best evaluation."""

    epoch: int = 0  # number of complete epochs
    update: int = 0  # number of updates done
    seconds: float = 0.0
    best: Evaluation | None = None
    best_epoch: int = 0
    on_target: int = 0  # number of latest epochs in a row that reached the target accuracy

    def add(self, evaluation: Evaluation, config: TrainingConfig) -> bool:
        """Record an epoch's evaluation; return whether to save its model: if none was better."""
        last, new = config.choose_by == "last", evaluation.rank_by(config.choose_by)
        best = None if self.best is None else self.best.rank_by(config.choose_by)
        reached = not last and evaluation.score >= config.target_accuracy
        self.on_target = self.on_target + 1 if reached else 0
        if best is not None and new < best and not last:
            return False
        self.best, self.best_epoch = evaluation, self.epoch
        return True

    @classmethod
    def replayed(
        cls,
        metrics: Iterable[Mapping[str, Any]],
        config: TrainingConfig,
        evaluation: Callable[..., Evaluation],
    ) -> Progress:
        """Rebuild the progress from `metrics.jsonl`; `evaluation` is `Learner.evaluation`."""
        progress = cls()
        for line in metrics:
            progress.epoch, progress.update = line["epoch"], line["update"]
            progress.seconds = line["seconds"]
            progress.add(evaluation(**line["validation"]), config)
        return progress

    def end(self, config: TrainingConfig) -> str | None:
        """Return the reason why the run has ended, or `None` if it has not."""
        if self.on_target >= IN_A_ROW:
            share = f"{config.target_accuracy:.2%}"
            return f"{IN_A_ROW} epochs in a row reached the target accuracy of {share}"
        # As in the learning rate schedule, the warm-up takes at most half of all updates.
        warm = self.update >= config.warmup or 2 * self.epoch >= config.epochs
        if warm and self.epoch - self.best_epoch >= config.patience:
            return f"no better model in {config.patience} epochs"
        return "all epochs are done" if self.epoch >= config.epochs else None
