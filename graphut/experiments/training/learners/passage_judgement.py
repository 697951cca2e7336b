"""How good a model is at pointing into passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import log
from statistics import fmean
from typing import Any

from graphut.experiments.tasks import Passage
from graphut.experiments.training.bar import judged
from graphut.experiments.training.learner import Evaluation
from graphut.models import UniversalTransformerPointer
from graphut.models.outputs import PointerPrediction

_BATCH = 100
_LEAST = 1e-12  # of a probability whose logarithm is taken


@dataclass(frozen=True)
class PassageEvaluation(Evaluation):
    """How good a model is on a set of passages; the more accurate one is the greater.

    Parameters
    ----------
    accuracy : float
        Share of right answers. A passage that does not have its answer counts as wrong.
    answerable_accuracy : float
        The same over the passages that have it; 0 if there are none.
    log_probability : float
        Mean log-probability of the right answers that can be given, in nats: of two models that
        are equally accurate, the surer one is the greater.
    answerable : float
        Share of the passages that have their answer.
    steps, last_steps : float
        Mean steps of a word, and of the last one of a passage, which asks for the answer.
    """

    accuracy: float
    answerable_accuracy: float
    log_probability: float
    answerable: float
    steps: float
    last_steps: float

    @property
    def rank(self) -> tuple[float, ...]:
        """Accuracy, and then how sure the model is of what is right."""
        return self.accuracy, self.log_probability

    def __str__(self) -> str:
        return (
            f"{self.accuracy:.2%} of answers right, {self.answerable_accuracy:.2%} of those that "
            f"can be; mean steps {self.steps:.2f} of a word, {self.last_steps:.2f} of the last"
        )

    def reached(self, target: float) -> bool:
        """Whether so large a share of the answers that can be given is right."""
        return self.answerable_accuracy >= target


@dataclass(frozen=True)
class Judgement:
    """One answer beside the right one.

    Parameters
    ----------
    answerable, right : bool
        Whether the passage has its answer, and whether that was given.
    probability : float
        Of the right answer.
    steps : list of int
        Of each word.
    """

    answerable: bool
    right: bool
    probability: float
    steps: list[int]

    @classmethod
    def of(cls, found: PointerPrediction, passage: Passage) -> Judgement:
        """Compare what a model has pointed at with what is right."""
        here = [word == passage.answer for word in passage.context]
        return cls(
            answerable=any(here),
            right=any(here) and found.word == passage.answer,
            probability=sum(
                p for p, is_answer in zip(found.probabilities, here, strict=True) if is_answer
            ),
            steps=found.steps,
        )


def judge(model: UniversalTransformerPointer, passages: Sequence[Passage]) -> list[Judgement]:
    """Answers beside the right ones, from the shortest passage to the longest.

    Raises
    ------
    ValueError
        If there are no passages.
    """
    if not passages:
        raise ValueError("there are no passages to evaluate on")
    # Passages of like length make batches of like work.
    passages = sorted(passages, key=lambda passage: len(passage.context))
    judgements = []
    for batch in judged(passages, _BATCH):
        found = model.predict([passage.context for passage in batch])
        judgements += [Judgement.of(*both) for both in zip(found, batch, strict=True)]
    return judgements


def summarize(judgements: Sequence[Judgement]) -> PassageEvaluation:
    """Shares of what is right, and means of steps.

    Examples
    --------
    >>> print(summarize([Judgement(True, True, 1.0, [1, 3]), Judgement(False, False, 0.0, [2])]))
    50.00% of answers right, 100.00% of those that can be; mean steps 2.00 of a word, 2.50 of
    the last
    """
    can_be = [judgement for judgement in judgements if judgement.answerable]
    surely = [log(max(judgement.probability, _LEAST)) for judgement in can_be]
    return PassageEvaluation(
        accuracy=fmean(judgement.right for judgement in judgements),
        answerable_accuracy=_mean([judgement.right for judgement in can_be]),
        log_probability=_mean(surely),
        answerable=fmean(judgement.answerable for judgement in judgements),
        steps=fmean(chain.from_iterable(judgement.steps for judgement in judgements)),
        last_steps=fmean(judgement.steps[-1] for judgement in judgements),
    )


def _mean(values: Sequence[Any]) -> float:
    return fmean(values) if values else 0.0
