"""Training and evaluation on a user's own graphs, with classes, several labels, or numbers."""

from collections.abc import Mapping
from itertools import chain
from math import exp
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import rankdata

from graphut.experiments.tasks.base import GraphTask
from graphut.experiments.training.learners.graph_scores import GraphScores
from graphut.experiments.training.learners.graphs import GraphLearner
from graphut.experiments.training.processes import all_gather

Column = NDArray[Any]
ANSWER_METRICS = ("macro_f1", "auc", "label_accuracy", "mae", "r2")


class OwnGraphLearner(GraphLearner):
    """Trains models for `graphut train graphs`, to predict a class, several labels, or numbers."""

    metric_meanings: ClassVar[Mapping[str, str]] = {
        **GraphLearner.metric_meanings,
        "accuracy": "share of correct answers: classes, or rows of labels without a mistake, or "
        "values within half a standard deviation of the training labels",
        "log_probability": "mean, in nats, of the correct answers; for values minus the mean "
        "squared error, in standard deviations",
        "macro_f1": "mean over the classes, or labels, of the F1 score",
        "auc": "area under the ROC curve, the mean over the classes, each against the others, or "
        "over the labels",
        "label_accuracy": "share of correct labels",
        "mae": "mean absolute error of the values",
        "r2": "share of the variance of the values that is explained",
    }
    rank_by = ("rank",)
    target_metric = "score"
    summary = "{measures}; mean steps {steps:.2f}{depth}"

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Compute `rank`, greater for a better model, `score` and texts for the summary line."""
        likely = metrics["log_probability"]
        values = GraphLearner.derived(metrics)
        names = {"accuracy": "accuracy", "macro_f1": "macro F1", "auc": "AUC"}
        rank, score = metrics["accuracy"], exp(likely)
        if metrics["mae"] is not None:
            names, rank = {"mae": "MAE", "r2": "R2"}, likely
            score = metrics["r2"] or 0.0
        elif metrics["label_accuracy"] is not None:
            names, rank = {"label_accuracy": "accuracy of labels"} | names, likely
        titled = {names[name]: metrics[name] for name in names if metrics[name] is not None}
        measures = [
            f"{name} {x:.2%}" if "accuracy" in name else f"{name} {x:.4g}"
            for name, x in titled.items()
        ]
        return {**values, "rank": rank, "score": score, "measures": ", ".join(measures)}

    def metrics(self, scores: GraphScores) -> dict[str, Any]:
        assert scores.predictions is not None and scores.targets is not None
        return scores.metrics() | answer_metrics(
            self.model.config.answer_kind, scores.predictions, scores.targets
        )

    def prepare(self, task: GraphTask) -> None:
        """Store mean and standard deviation of the training labels in a model for regression."""
        model = self.model
        if model.config.answer_kind != "values":
            return
        graphs = task.train(0, 0)
        labels = [graph.labels[graph.has_label] for graph in graphs]
        parts = [labels] if graphs[0].part is None else all_gather([labels])
        values = torch.from_numpy(np.concatenate([*chain(*parts)]).astype(np.float64))
        scale = values.std(0, correction=0)
        model.value_mean.copy_(values.mean(0))
        model.value_scale.copy_(torch.where(scale > 0, scale, 1.0))


def answer_metrics(target: str, predicted: Column, correct: Column) -> dict[str, float | None]:
    """Return a dictionary of metrics for the target "class", "labels" or "values".

    `predicted` are logits or values, `(A, K)`, with a column for each class, label or number.
    `correct` are the classes, `(A,)`, or labels or values, `(A, K)`. A metric is None if it is not
    defined for the target, or for these data, such as the AUC of a single class.
    """
    metrics: dict[str, float | None] = dict.fromkeys(ANSWER_METRICS)
    if target == "values":
        error = float(np.abs(predicted - correct).mean())
        return metrics | {"mae": error, "r2": r2(predicted, correct)}
    if target == "labels":
        is_predicted, is_correct = predicted > 0, correct > 0
        metrics["label_accuracy"] = float((is_predicted == is_correct).mean())
        macro = macro_f1(is_predicted, is_correct)
        return metrics | {"macro_f1": macro, "auc": auc(predicted, is_correct)}
    classes = np.arange(predicted.shape[1])
    is_predicted, is_correct = (x[:, None] == classes for x in (predicted.argmax(1), correct))
    present = is_predicted.any(0) | is_correct.any(0)
    macro = macro_f1(is_predicted[:, present], is_correct[:, present])
    shares, first = softmax(predicted.astype(np.float64), axis=1), int(len(classes) == 2)
    return metrics | {"macro_f1": macro, "auc": auc(shares[:, first:], is_correct[:, first:])}


def macro_f1(predicted: Column, correct: Column) -> float:
    """Return the F1 score of bool predictions, averaged over columns (classes, labels)."""
    hits, totals = (predicted & correct).sum(0), predicted.sum(0) + correct.sum(0)
    return float((2 * hits / np.maximum(totals, 1)).mean())


def auc(scores: Column, correct: Column) -> float | None:
    """Return the mean ROC AUC of the columns with both True and False; None if there are none."""
    ones = correct.sum(0)
    has_both = (ones > 0) & (ones < len(correct))
    if not has_both.any():
        return None
    ones, ranks = ones[has_both], rankdata(scores[:, has_both], axis=0)
    above = (ranks * correct[:, has_both]).sum(0) - ones * (ones + 1) / 2
    return float((above / (ones * (len(correct) - ones))).mean())


def r2(predicted: Column, correct: Column) -> float | None:
    """Return R2, averaged over columns; `None` if a column of `correct` is constant."""
    total = np.square(correct - correct.mean(0)).sum(0)
    if not total.all():
        return None
    return float((1 - np.square(predicted - correct).sum(0) / total).mean())
