from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from graphut.experiments.training import Outcome, TrainingConfig
from graphut.experiments.training.evaluation import Progress, Totals, update_numbers
from graphut.experiments.training.learners.graphs import GraphLearner
from graphut.experiments.training.learners.sequences import PairLearner
from graphut.nn import Ponder
from tests.experiments.training.learners.small_models import evaluation_of


def add(totals: Totals, loss: float, labels: int, right: int, **ponders: list[int]) -> None:
    outcome = Outcome(
        loss=torch.tensor(9.0),
        correct=torch.tensor(right),
        labels=labels,
        ponders={
            name: cast(Ponder, SimpleNamespace(steps=torch.tensor(steps)))
            for name, steps in ponders.items()
        },
    )
    totals.add([*ponders], update_numbers(torch.tensor(loss), outcome).tolist())


def test_totals_means_are_over_updates_labels_and_nodes() -> None:
    totals = Totals()
    add(totals, 1.0, labels=2, right=1, encoder=[1, 2, 3], decoder=[4, 4])
    add(totals, 2.0, labels=3, right=3, encoder=[2], decoder=[3, 3, 2])
    assert totals.means() == {
        "loss": 1.5,
        "accuracy": 0.8,
        "encoder_steps": 2.0,
        "decoder_steps": 3.2,
    }
    assert str(totals) == "loss 1.5000, accuracy 80.00%, steps 2.00/3.20 (encoder/decoder)"


def test_progress_keeps_the_last_of_equally_good_models() -> None:
    progress = Progress()
    evaluations = [(0.8, 1.0, 2.0), (0.9, 0.9, 3.0), (0.9, 0.9, 1.0), (0.9, 0.8, 9.0), (0.5, 1, 1)]
    kept, on_target = [], []
    for epoch, (sequences, tokens, steps) in enumerate(evaluations, 1):
        progress.epoch = epoch
        evaluation = evaluation_of(PairLearner, sequences, tokens, steps, steps)
        kept.append(progress.add(evaluation, TrainingConfig(target_accuracy=0.9)))
        on_target.append(progress.on_target)
    assert kept == [True, True, True, False, False]
    assert on_target == [0, 1, 2, 3, 0]
    best = evaluation_of(PairLearner, 0.9, 0.9, 1.0, 1.0)
    assert (progress.best_epoch, progress.best) == (3, best)


@pytest.mark.parametrize(
    ("choose_by", "kept"),
    [
        ("task", [True, True, False, False, True]),
        ("log_probability", [True, False, True, False, False]),
        ("last", [True] * 5),
    ],
)
def test_progress_follows_choose_by(choose_by: Any, kept: list[bool]) -> None:
    config = TrainingConfig(choose_by=choose_by, target_accuracy=0.5, patience=1, warmup=0)
    judged = [(0.5, -0.2), (0.9, -0.3), (0.8, -0.1), (0.7, -0.15), (0.9, -0.2)]
    others = [None] * (len(GraphLearner.metric_meanings) - 4)
    evaluations = [evaluation_of(GraphLearner, x, 1.0, y, 1.0, *others) for x, y in judged]
    lines = [{"epoch": n, "update": n, "validation": x} for n, x in enumerate(evaluations, 1)]
    progress, found = Progress(), []
    for line in lines:
        progress.epoch = progress.update = line["epoch"]
        found.append(progress.add(line["validation"], config))
    assert found == kept
    metrics = [{**line, "seconds": 0.0, "validation": line["validation"].metrics} for line in lines]
    assert Progress.replayed(metrics, config, GraphLearner.evaluation) == progress
    assert (progress.end(config) is None) == (choose_by == "last")


@pytest.mark.parametrize(
    ("progress", "end"),
    [
        (Progress(), None),
        (Progress(epoch=4, best_epoch=2, best=evaluation_of(PairLearner, 0.89, 1, 1, 1)), None),
        (Progress(epoch=3, best_epoch=2, on_target=2), None),
        (Progress(epoch=3, on_target=3), "3 epochs in a row reached the target accuracy of 90.0"),
        (Progress(epoch=5, best_epoch=2, update=400), "no better model in 3 epochs"),
        (Progress(epoch=5, best_epoch=2, update=399), None),  # still in the warm-up
        (Progress(epoch=6, best_epoch=3, update=30), "no better model in 3 epochs"),  # half of all
        (Progress(epoch=12, best_epoch=11), "all epochs are done"),
    ],
)
def test_progress_end(progress: Progress, end: str | None) -> None:
    reason = progress.end(TrainingConfig(epochs=12, patience=3, target_accuracy=0.9))
    assert (reason or "none").startswith(end or "none")
