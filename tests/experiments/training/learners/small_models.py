from typing import Any

import torch

from graphut.experiments.tasks import Task
from graphut.experiments.training import Evaluation
from graphut.experiments.training.learners import AnyLearner
from graphut.models import UniversalTransformerLM, UniversalTransformerLMConfig


def small_model(kind: type[AnyLearner], task: Task, **options: Any) -> Any:
    """Return the model of a kind of learner for a task, with the same weights at each call."""
    torch.manual_seed(0)
    sizes = {"d_model": 16, "num_heads": 2, "d_hidden": 32, "max_steps": 3, **options}
    return kind.model_kind(task.config_kind(**{**task.model_sizes, **sizes}))


def make_language_model(**options: Any) -> UniversalTransformerLM:
    torch.manual_seed(1)
    shape = {"vocab_size": 8, "d_model": 16, "num_heads": 2, "d_hidden": 16, "max_steps": 5}
    model = UniversalTransformerLM(UniversalTransformerLMConfig(**{**shape, **options})).double()
    for parameter in model.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    return model


def evaluation_of(learner: Any, *values: float) -> Evaluation:
    """Return an evaluation with metrics in the order of their meanings."""
    return learner.evaluation(**dict(zip(learner.metric_meanings, values, strict=False)))
