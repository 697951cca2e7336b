"""Training: the training loop, evaluation, and the folder of a run."""

from typing import TYPE_CHECKING

from graphut._lazy import lazy_names

if TYPE_CHECKING:
    from graphut.experiments.training.config import GenerationOptions, TrainingConfig
    from graphut.experiments.training.evaluation import Evaluation
    from graphut.experiments.training.learners import Outcome, evaluate, learner_of
    from graphut.experiments.training.run import Run
    from graphut.experiments.training.run_files import is_run
    from graphut.experiments.training.trainer import Trainer

__all__ = [
    "Evaluation",
    "GenerationOptions",
    "Outcome",
    "Run",
    "Trainer",
    "TrainingConfig",
    "evaluate",
    "is_run",
    "learner_of",
]

__getattr__, __dir__ = lazy_names(__name__)
