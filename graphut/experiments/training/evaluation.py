"""The evaluation of a model on a set of examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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

    The processes of a process group share the batches, and each returns the results of all batches.
    Raise `ValueError` if there are no examples.

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
    """Predict in batches of similar length; return pairs `(example, prediction)` in given order.

    `answer` is a function that returns the predictions for a batch. Processes share the batches as
    in `score_batches`.
    """

    def score(batch: list[int]) -> list[tuple[int, S]]:
        return [*zip(batch, answer([examples[index] for index in batch]), strict=True)]

    places = range(len(examples))
    scored = score_batches(score, places, batch_size, lambda n: length(examples[n]))
    answers = dict(chain.from_iterable(scored))
    return [(example, answers[index]) for index, example in enumerate(examples)]


def grouped(items: Iterable[T], keys: Iterable[K]) -> dict[K, list[T]]:
    """Return a dictionary, sorted by key, from each key to the list of items with this key."""
    groups: dict[K, list[T]] = {}
    for item, key in zip(items, keys, strict=True):
        groups.setdefault(key, []).append(item)
    return dict(sorted(groups.items()))


def progress_bar(**options: Any) -> tqdm[Any]:
    """Return a progress bar of at most 80 columns; only process 0 draws it, on a terminal."""
    columns = min(get_terminal_size().columns, 80)
    return tqdm(**options, ncols=columns, leave=False, disable=None if is_first() else True)
