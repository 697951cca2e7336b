"""Comparison of a model's predictions for graphs with the labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import pairwise
from math import isnan, nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphut.experiments.tasks import LabelledGraph
from graphut.experiments.training.evaluation import score_batches
from graphut.experiments.training.learners.graph_batch import GraphBatch
from graphut.models import UniversalGraphTransformer
from graphut.models.graph_inputs import until_quiescent
from graphut.nn import Ponder

Column = NDArray[Any]
ANSWER_METRICS = ("auc", "mae", "r2")
_BATCH_NODES = 20_000
# Ranges of depths, without their ends: 0 and 1, 2 and 3, 4 to 6, ...
_RANGES = [*pairwise((0, 2, 4, 7, 11, 16, 26, 51, 101, 201, 501, 1001, 10_001, 10**9))]


@dataclass(frozen=True)
class GraphScores:
    """The correctness and the steps of each node of several graphs.

    A prediction for a whole graph is stored at the graph's first node.
    """

    correct: Column  # (N,) 1 for a correct answer, 0 for a wrong one, NaN without a label
    log_probability: Column  # (N,) of the correct answer, in nats, or NaN
    steps: Column  # (N,)
    depth: Column  # (N,) see `LabelledGraph`; NaN if unknown
    graph: Column  # (N,)
    count: int  # of graphs
    flops: int
    all_flops: int  # if every node had taken all steps
    needed_flops: float  # if nodes had stopped after depth + 1 steps; NaN if a depth is unknown
    rounds: Column | None = None  # (G,) with `EventDriven`, as `quiescent`
    quiescent: Column | None = None
    predictions: Column | None = None  # unless edges answer: logits or values, where there is
    targets: Column | None = None  # a label; and the labels

    @classmethod
    def joined(cls, parts: Sequence[GraphScores]) -> GraphScores:
        """Concatenate the scores of several batches."""
        first = np.cumsum([0, *(part.count for part in parts)])
        parts = [replace(p, graph=p.graph + start) for p, start in zip(parts, first, strict=False)]
        columns = {each.name: [getattr(part, each.name) for part in parts] for each in fields(cls)}
        joins: dict[type, Any] = {np.ndarray: np.concatenate, type(None): lambda nothing: None}
        return cls(**{name: joins.get(type(x[0]), sum)(x) for name, x in columns.items()})

    def metrics(self, target: str) -> dict[str, Any]:
        """Return the metrics that `GraphLearner.metric_meanings` lists, such as accuracy.

        `target` is the kind of an answer: "class" or "values".
        """
        from scipy.stats import spearmanr  # a fifth of the start of every command

        has_depth = ~np.isnan(self.depth)
        depth, steps = self.depth[has_depth], self.steps[has_depth]
        varied = len(set(depth)) > 1 and len(set(steps)) > 1
        wrong = len({*self.graph[self.correct == 0]})
        one_each = int((~np.isnan(self.correct)).sum()) == self.count
        if self.predictions is None or self.targets is None:
            of_answers: dict[str, float | None] = dict.fromkeys(ANSWER_METRICS)
        else:
            of_answers = answer_metrics(target, self.predictions, self.targets)
        return {
            **of_answers,
            "accuracy": float(np.nanmean(self.correct)),
            "graph_accuracy": None if self.count == 1 or one_each else 1 - wrong / self.count,
            "log_probability": float(np.nanmean(self.log_probability)),
            "steps": float(self.steps.mean()),
            "rank_correlation": float(spearmanr(depth, steps)[0]) if varied else None,
            "work_ratio": None if isnan(self.needed_flops) else self.flops / self.needed_flops,
        }

    def by_depth(self) -> list[dict[str, Any]]:
        """Return rows with accuracy and mean steps by ranges of depth."""
        deepest = np.nanmax(self.depth, initial=-1)
        return [
            {
                "from": low,
                "to": min(high - 1, int(deepest)),
                "depth": float(self.depth[nodes].mean()),
                **self._means(nodes),
            }
            for low, high in _RANGES
            if (nodes := (self.depth >= low) & (self.depth < high)).any()
        ]

    def _means(self, nodes: Column) -> dict[str, Any]:
        correct = self.correct[nodes & ~np.isnan(self.correct)]
        accuracy = float(correct.mean()) if correct.size else None
        steps = float(self.steps[nodes].mean())
        return {"nodes": int(nodes.sum()), "accuracy": accuracy, "steps": steps}


def score_graphs(
    model: UniversalGraphTransformer,
    graphs: Sequence[LabelledGraph],
) -> GraphScores:
    """Compare a model's predictions for graphs with the labels; the smallest graph comes first."""
    largest = max((len(graph.nodes) for graph in graphs), default=1)
    with until_quiescent(model, largest):
        parts = score_batches(
            partial(_score, model),
            graphs,
            max(1, _BATCH_NODES // largest),
            lambda graph: len(graph.nodes),
        )
    scores = GraphScores.joined(parts)
    if np.isnan(scores.correct).all():
        raise ValueError("no node of the graphs has an answer to evaluate on")
    return scores


@torch.no_grad()
def _score(model: UniversalGraphTransformer, graphs: Sequence[LabelledGraph]) -> GraphScores:
    batch = GraphBatch.of(graphs, model.config.answer_at)
    with model.evaluating():
        output = batch.run(model)
    loss, correct = (each.cpu().numpy() for each in batch.judge(model, output.logits))
    predictions = targets = None
    if model.config.answer_at != "edge":
        predictions = output.logits.float().cpu()[batch.labelled].numpy()
        targets = batch.labels[batch.labelled].numpy()
    lengths, ponder = batch.layout.dst_lengths, output.ponder
    first_nodes = lengths.cumsum(0) - lengths
    at = first_nodes[batch.labelled] if model.config.answer_at == "graph" else batch.labelled
    columns = np.full((2, int(lengths.sum())), np.nan)
    columns[:, at.numpy()] = correct, -loss
    depth = batch.depth.numpy()
    return GraphScores(
        correct=columns[0],
        log_probability=columns[1],
        steps=ponder.steps.cpu().numpy().astype(np.float64),
        depth=np.where(depth < 0, np.nan, depth),
        graph=np.repeat(np.arange(len(graphs)), lengths),
        count=len(graphs),
        flops=int(ponder.flops),
        all_flops=int(ponder.all_flops),
        needed_flops=nan if (depth < 0).any() else needed_flops(ponder, torch.from_numpy(depth)),
        rounds=None if ponder.rounds is None else ponder.rounds.cpu().numpy(),
        quiescent=None if ponder.quiescent is None else ponder.quiescent.cpu().numpy(),
        predictions=predictions,
        targets=targets,
    )


def needed_flops(ponder: Ponder, depth: Tensor) -> int:
    """Return the floating-point operations of a recurrence if nodes stop after `depth + 1` steps.

    A node that stops before the last step projects its keys and values once more, as "frozen" does.
    """
    steps, degrees = depth + 1, ponder.layout.in_degrees.cpu()
    projected = steps.sum() + (steps < steps.max()).sum()
    edges = (steps * degrees).sum() * ponder.edge_flops
    return int(steps.sum() * ponder.node_flops + edges + projected * ponder.key_value_flops)


def answer_metrics(target: str, predicted: Column, correct: Column) -> dict[str, float | None]:
    """Return a dictionary of metrics for the target "class" or "values".

    `predicted` are logits or values, `(A, K)`, with a column for each class or number.
    `correct` are the classes, `(A,)`, or values, `(A, K)`. A metric is None if it is not
    defined for the target, or for these data, such as the AUC of a single class.
    """
    from scipy.special import softmax  # here as `spearmanr`

    metrics: dict[str, float | None] = dict.fromkeys(ANSWER_METRICS)
    if target == "values":
        error = float(np.abs(predicted - correct).mean())
        return metrics | {"mae": error, "r2": r2(predicted, correct)}
    is_correct = correct[:, None] == np.arange(predicted.shape[1])
    shares = softmax(predicted.astype(np.float64), axis=1)
    first = int(predicted.shape[1] == 2)
    return metrics | {"auc": auc(shares[:, first:], is_correct[:, first:])}


def auc(scores: Column, correct: Column) -> float | None:
    """Return the mean ROC AUC of the columns with both True and False; None if there are none."""
    ones = correct.sum(0)
    has_both = (ones > 0) & (ones < len(correct))
    if not has_both.any():
        return None
    from scipy.stats import rankdata  # a fifth of the start of every command

    ones, ranks = ones[has_both], rankdata(scores[:, has_both], axis=0)
    above = (ranks * correct[:, has_both]).sum(0) - ones * (ones + 1) / 2
    return float((above / (ones * (len(correct) - ones))).mean())


def r2(predicted: Column, correct: Column) -> float | None:
    """Return R2, averaged over columns; `None` if a column of `correct` is constant."""
    total = np.square(correct - correct.mean(0)).sum(0)
    if not total.all():
        return None
    return float((1 - np.square(predicted - correct).sum(0) / total).mean())
