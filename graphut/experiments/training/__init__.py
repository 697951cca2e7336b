"""Training: the loop, its records, and the folder of a run."""

from graphut.experiments.training.config import TrainingConfig
from graphut.experiments.training.evaluation import Evaluation
from graphut.experiments.training.generation import GenerationOptions
from graphut.experiments.training.learner import Outcome
from graphut.experiments.training.learners import evaluate, learner_of
from graphut.experiments.training.run import Run, is_run
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
