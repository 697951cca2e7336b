"""Tables of what a model answers wrongly: confused classes, wrong nodes, the worst examples."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from graphut.experiments.training.generation import Answer, Choice
from graphut.models.checked_config import cut

_WORST, _WRONG = 10, 30  # rows
_MOST_CLASSES = 20
_LONGEST = 100  # characters of a text


class Table(NamedTuple):
    """A table for a report."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Judged(NamedTuple):
    """What a report keeps of an answer to a test example."""

    number: int
    text: str  # of the example
    answer: str
    correct: str
    score: float
    choices: Sequence[Choice]

    @classmethod
    def of(cls, number: int, answer: Answer) -> "Judged":
        """Return what to keep of the answer to test example `number`."""
        score = float(bool(answer.is_correct)) if answer.score is None else answer.score
        text = " ".join(answer.parts[0].names)
        text, found, correct = (cut(x, _LONGEST) for x in (text, answer.text, answer.correct))
        return cls(number, text, found, correct, score, answer.choices)


def mistake_tables(answers: Sequence[Judged]) -> Iterator[Table]:
    """Yield tables about answers to graphs, or a table of the worst answers to sequences."""
    choices = [(each.number, choice) for each in answers for choice in each.choices]
    if not choices:
        ranked = sorted(answers, key=lambda each: each.score)
        worst = [each for each in ranked if each.score < 1][:_WORST]
        head = ["test example", "share correct", "text", "answer", "correct answer"]
        rows: Sequence[Sequence[Any]] = [
            [x.number, x.score, x.text, x.answer, x.correct or None] for x in worst
        ]
        if rows:
            yield Table(f"Worst answers, {len(rows)} of {len(answers)}", head, rows)
        return
    yield from _confusion([choice for _, choice in choices])
    wrong = [(number, choice) for number, choice in choices if not choice.is_correct]
    wrong.sort(key=lambda pair: pair[1].label_probability)
    head = ["test example", "node", "correct answer", "answer", "its probability"]
    head += ["probability of the correct answer", "steps"]
    rows = [[number, x.name or "the graph", *x[1:-1]] for number, x in wrong[:_WRONG]]
    if rows:
        yield Table(f"Wrong answers, {len(rows)} of {len(wrong)}, the surest first", head, rows)


def _confusion(choices: Sequence[Choice]) -> Iterator[Table]:
    """Yield a confusion matrix, unless there are many classes."""
    classes = sorted({name for x in choices for name in (x.label, x.predicted)})
    if len(classes) > _MOST_CLASSES:
        return
    counts = Counter((choice.label, choice.predicted) for choice in choices)
    rows = [[label, *(counts[label, name] for name in classes)] for label in classes]
    yield Table("Confusion matrix", ["correct answer", *(f"answer {x}" for x in classes)], rows)
