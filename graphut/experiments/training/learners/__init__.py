"""Learners: one class for each kind of task, which trains and evaluates the models."""

from collections.abc import Sequence
from typing import Any

from graphut.experiments.tasks import Task
from graphut.experiments.training.evaluation import Evaluation
from graphut.experiments.training.learner import AnyLearner
from graphut.experiments.training.learners.graphs import GraphLearner
from graphut.experiments.training.learners.last_words import AgreementLearner, LambadaLearner
from graphut.experiments.training.learners.own_graphs import OwnGraphLearner
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.experiments.training.learners.passages import PassageLearner
from graphut.experiments.training.learners.questions import QuestionLearner
from graphut.experiments.training.learners.texts import TextLearner
from graphut.experiments.training.learners.translation import TranslationLearner
from graphut.models.adaptive_model import AdaptiveModel

LEARNERS: dict[type[Task], type[AnyLearner]] = {
    learner.task_kind: learner
    for learner in (
        PairLearner,
        QuestionLearner,
        TextLearner,
        AgreementLearner,
        LambadaLearner,
        PassageLearner,
        TranslationLearner,
        GraphLearner,
        OwnGraphLearner,
    )
}
"""The learner class for each base class of tasks."""


def learner_of(task: Task | type[Task]) -> type[AnyLearner]:
    """Return the learner class of a task: the entry of `LEARNERS` for its nearest base class.

    Raise `TypeError` if no base class has a learner.
    """
    kind = task if isinstance(task, type) else type(task)
    for base in kind.__mro__:
        if base in LEARNERS:
            return LEARNERS[base]
    kinds = ", ".join(base.__name__ for base in LEARNERS)
    raise TypeError(f"{kind.__name__} has no learner: derive it from {kinds}")


def evaluate(model: AdaptiveModel, task: Task, examples: Sequence[Any]) -> Evaluation:
    """Evaluate a model on examples of its task, such as `task.validation`."""
    return learner_of(task)(model, task.vocabularies).evaluate_in_detail(examples)[0]
