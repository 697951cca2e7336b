"""How good a model is on questions: errors, and steps by what a question asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import exp
from statistics import fmean
from typing import Any

import numpy as np

from graphut.experiments.tasks import Question
from graphut.experiments.training.bar import judged
from graphut.experiments.training.learner import Evaluation
from graphut.models import UniversalTransformerClassifier
from graphut.models.outputs import ClassifierPrediction

FAILED = 0.05
"""A task with more errors has failed (arXiv 1502.05698, section 5)."""

_BATCH = 200


@dataclass(frozen=True)
class QuestionEvaluation(Evaluation):
    """How good a model is on a set of questions; the more accurate one is the greater.

    Parameters
    ----------
    accuracy : float
        Share of right answers, on average over the groups of the set.
    log_probability : float
        Mean log-probability of the right answers, in nats: of two models that are equally
        accurate, the surer one is the greater.
    groups, failed : int
        How many groups there are, and how many have more than 5% of their answers wrong.
    steps, question_steps : float
        Mean steps of a sentence, questions included, and of a question.
    """

    accuracy: float
    log_probability: float
    groups: int
    failed: int
    steps: float
    question_steps: float

    @property
    def rank(self) -> tuple[float, ...]:
        """Accuracy, and then how sure the model is of what is right."""
        return self.accuracy, self.log_probability

    def __str__(self) -> str:
        failed = f", {self.failed} of {self.groups} tasks failed" if self.groups > 1 else ""
        return (
            f"{1 - self.accuracy:.2%} of answers wrong{failed}; mean steps {self.steps:.2f} of a "
            f"sentence, {self.question_steps:.2f} of a question"
        )

    def reached(self, target: float) -> bool:
        """Whether the right answers are as likely as that, on geometric average.

        A hundred questions to validate on are soon answered without an error.
        """
        return exp(self.log_probability) >= target


@dataclass(frozen=True)
class Judgement:
    """One answer beside the right one.

    Parameters
    ----------
    group : str
        That of the question.
    supporting : int
        How many facts the right answer follows from.
    right : bool
        Whether it is the right one.
    log_probability : float
        Of the right one, in nats.
    steps : list of int
        Of each fact, and of the question, which is last.
    """

    group: str
    supporting: int
    right: bool
    log_probability: float
    steps: list[int]

    @classmethod
    def of(cls, found: ClassifierPrediction, question: Question) -> Judgement:
        """Compare what a model has answered with what is right."""
        return cls(
            group=question.group,
            supporting=len(question.supporting),
            right=found.label == question.answer,
            log_probability=found.log_probabilities[question.answer],
            steps=found.steps,
        )


def document(question: Question) -> list[list[int]]:
    """What a model reads of a question: the facts, and the question last."""
    return [*question.facts, question.question]


def judge(model: UniversalTransformerClassifier, questions: Sequence[Question]) -> list[Judgement]:
    """Answers beside the right ones, from the shortest story to the longest.

    Raises
    ------
    ValueError
        If there are no questions.
    """
    if not questions:
        raise ValueError("there are no questions to evaluate on")
    # Stories of like length make batches of like work.
    questions = sorted(questions, key=lambda question: len(question.facts))
    judgements = []
    for batch in judged(questions, _BATCH):
        found = model.predict([document(question) for question in batch])
        judgements += [Judgement.of(*both) for both in zip(found, batch, strict=True)]
    return judgements


def summarize(judgements: Sequence[Judgement]) -> QuestionEvaluation:
    """Shares of what is right, on average over groups, and means of steps.

    Examples
    --------
    >>> print(summarize([
    ...     Judgement("qa1", 1, True, -0.1, [2, 1, 3]), Judgement("qa2", 2, False, -3.0, [4, 4])]))
    50.00% of answers wrong, 1 of 2 tasks failed; mean steps 2.80 of a sentence, 3.50 of a question
    """
    groups = _grouped(judgements, "group").values()
    errors = [fmean(not judgement.right for judgement in group) for group in groups]
    return QuestionEvaluation(
        accuracy=fmean(fmean(judgement.right for judgement in group) for group in groups),
        log_probability=fmean(judgement.log_probability for judgement in judgements),
        groups=len(errors),
        failed=sum(error > FAILED for error in errors),
        steps=fmean(chain.from_iterable(judgement.steps for judgement in judgements)),
        question_steps=fmean(judgement.steps[-1] for judgement in judgements),
    )


def by(judgements: Sequence[Judgement], what: str) -> list[dict[str, Any]]:
    """Errors and steps for each value of "group", or of "supporting".

    `steps` and `steps_deviation` are mean and standard deviation over all sentences of all
    stories, their questions included: what arXiv 1807.03819, section 3.1, calls the average
    ponder time, over all positions in all samples.

    Examples
    --------
    >>> [row] = by([Judgement("qa1", 1, True, -0.1, [2, 1, 3])], "supporting")
    >>> row["supporting"], row["questions"], row["error"], row["steps"], row["question_steps"]
    (1, 1, 0.0, 2.0, 3.0)
    """
    return [{what: value, **_row(group)} for value, group in _grouped(judgements, what).items()]


def _grouped(judgements: Sequence[Judgement], what: str) -> dict[Any, list[Judgement]]:
    groups: dict[Any, list[Judgement]] = {}
    for judgement in judgements:
        groups.setdefault(getattr(judgement, what), []).append(judgement)
    return dict(sorted(groups.items()))


def _row(judgements: Sequence[Judgement]) -> dict[str, Any]:
    steps = np.array([step for judgement in judgements for step in judgement.steps])
    return {
        "questions": len(judgements),
        "error": fmean(not judgement.right for judgement in judgements),
        "steps": steps.mean().item(),
        "steps_deviation": steps.std().item(),
        "question_steps": fmean(judgement.steps[-1] for judgement in judgements),
    }
