"""Learners: one class for each kind of task, which trains and evaluates the models."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from graphut.experiments.tasks import Task
from graphut.experiments.training.evaluation import Evaluation
from graphut.experiments.training.learner import AnyLearner
from graphut.models.adaptive_model import AdaptiveModel


def learner_of(task: Task | type[Task]) -> type[AnyLearner]:
    """Return the learner class of a task; raise `TypeError` if it has none."""
    learner = task.learner
    if isinstance(learner, str):  # imported only when it is needed
        module, _, name = learner.partition(":")
        learner = getattr(import_module(f"{__name__}.{module}"), name)
    if learner is None:
        name = (task if isinstance(task, type) else type(task)).__name__
        raise TypeError(f"{name} has no learner: derive it from PairTask, TextTask or GraphTask")
    kind: type[AnyLearner] = learner
    return kind


def evaluate(model: AdaptiveModel, task: Task, examples: Sequence[Any]) -> Evaluation:
    """Evaluate a model on examples of its task, such as `task.validation`."""
    return learner_of(task)(model, task.vocabularies).evaluate_in_detail(examples)[0]
