"""Tables of what a model answers wrongly: confused classes, wrong nodes, the worst examples."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from graphut.experiments.training.generation import Choice

_WORST, _WRONG = 10, 30  # rows
_MOST_CLASSES = 20


class Table(NamedTuple):
    """A table for a report."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]


def worst_examples(rows: Sequence[Sequence[Any]]) -> Iterator[Table]:
    """Yield a table of the worst examples.

    A row is about one example: its share of correct tokens or nodes, and three texts, the example,
    the answer and the correct answer.
    """
    numbered = [[number, *row] for number, row in enumerate(rows, 1) if row[0] < 1]
    worst = sorted(numbered, key=lambda row: row[1])[:_WORST]
    head = ["test example", "share correct", "text", "answer", "correct answer"]
    if worst:
        yield Table(f"Worst answers, {len(worst)} of {len(rows)}", head, worst)


def wrong_choices(choices: Sequence[tuple[int, Choice]]) -> Iterator[Table]:
    """Yield a confusion matrix, unless there are many classes, and a table of wrong answers.

    The choices are those of several examples, each with the number of its example.
    """
    counts = Counter((choice.label, choice.predicted) for _, choice in choices)
    classes = sorted({name for pair in counts for name in pair})
    if len(classes) <= _MOST_CLASSES:
        matrix = [[label, *(counts[label, name] for name in classes)] for label in classes]
        head = ["correct answer", *(f"answer {name}" for name in classes)]
        yield Table("Confusion matrix", head, matrix)
    wrong = [(number, *x) for number, x in choices if x.label != x.predicted]
    wrong.sort(key=lambda row: -row[4])
    head = ["test example", "node", "correct answer", "answer", "its probability"]
    head += ["probability of the correct answer", "steps"]
    if wrong:
        caption = f"Wrong answers, {len(wrong[:_WRONG])} of {len(wrong)}, the surest first"
        yield Table(caption, head, wrong[:_WRONG])
