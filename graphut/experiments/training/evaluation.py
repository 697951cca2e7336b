"""The evaluation of a model on a set of examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from shutil import get_terminal_size
from typing import Any, TypeVar

from tqdm import tqdm

from graphut.experiments.tasks.base import in_batches
from graphut.experiments.training.processes import all_gather, is_first, shard

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

    places = range(len(examples))
    scored = score_batches(score, places, batch_size, lambda n: length(examples[n]))
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
