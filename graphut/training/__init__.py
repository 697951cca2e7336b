"""Training: the loop, its records, and the folder of a run."""

from graphut.training.config import TrainingConfig
from graphut.training.loss import sequence_loss
from graphut.training.metrics import Evaluation, evaluate
from graphut.training.optimizer import make_optimizer, make_schedule
from graphut.training.run import Run, is_run
from graphut.training.trainer import Trainer

__all__ = [
    "Evaluation",
    "Run",
    "Trainer",
    "TrainingConfig",
    "evaluate",
    "is_run",
    "make_optimizer",
    "make_schedule",
    "sequence_loss",
]
