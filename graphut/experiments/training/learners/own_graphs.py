"""Training and evaluation on a user's own graphs, with classes, several labels, or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from math import exp
from typing import Any, ClassVar

import numpy as np
import torch

from graphut.experiments.tasks.base import GraphTask
from graphut.experiments.tasks.own_graphs import Graphs
from graphut.experiments.training.learners.graph_metrics import answer_metrics
from graphut.experiments.training.learners.graph_scores import GraphScores
from graphut.experiments.training.learners.graphs import GraphLearner
from graphut.experiments.training.processes import all_gather
from graphut.models import UniversalGraphTransformer


class OwnGraphLearner(GraphLearner):
    """Trains models for `graphut train graphs`, to predict a class, several labels, or numbers."""

    task_kind = Graphs
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
        """Return a dictionary of values computed from the metrics, for an `Evaluation`.

        `rank` is greater for a better model. Training ends when `score` reaches the option
        `target_accuracy`. `measures` and `depth` are texts for the summary line.
        """
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

    @staticmethod
    def metrics(model: UniversalGraphTransformer, scores: GraphScores) -> dict[str, Any]:
        assert scores.predictions is not None and scores.targets is not None
        return scores.metrics() | answer_metrics(
            model.config.answer_kind, scores.predictions, scores.targets
        )

    def prepare(self, model: UniversalGraphTransformer, task: GraphTask) -> None:
        """Store mean and standard deviation of the training labels in a model for regression."""
        if model.config.answer_kind != "values":
            return
        graphs = task.train(0, 0)
        labels = [graph.labels[graph.has_label] for graph in graphs]
        parts = [labels] if graphs[0].part is None else all_gather([labels])
        values = torch.from_numpy(np.concatenate([*chain(*parts)]).astype(np.float64))
        scale = values.std(0, correction=0)
        model.value_mean.copy_(values.mean(0))
        model.value_scale.copy_(torch.where(scale > 0, scale, 1.0))
