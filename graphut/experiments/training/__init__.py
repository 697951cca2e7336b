"""Training: the loop, its records, and the folder of a run."""

from graphut.experiments.training.config import TrainingConfig
from graphut.experiments.training.evaluations import evaluate, save_evaluation
from graphut.experiments.training.learner import Evaluation, Learner, NoOptions, Outcome, Said
from graphut.experiments.training.learners import learner_of
from graphut.experiments.training.learners.generation import GenerationOptions
from graphut.experiments.training.learners.judgement import (
    Judgement,
    PairEvaluation,
    judge,
    summarize,
)
from graphut.experiments.training.learners.lengths import by_length
from graphut.experiments.training.optimizer import make_optimizer, make_schedule
from graphut.experiments.training.run import Run, is_run
from graphut.experiments.training.trainer import Trainer

__all__ = [
    "Evaluation",
    "GenerationOptions",
    "Judgement",
    "Learner",
    "NoOptions",
    "Outcome",
    "PairEvaluation",
    "Run",
    "Said",
    "Trainer",
    "TrainingConfig",
    "by_length",
    "evaluate",
    "is_run",
    "judge",
    "learner_of",
    "make_optimizer",
    "make_schedule",
    "save_evaluation",
    "summarize",
]
