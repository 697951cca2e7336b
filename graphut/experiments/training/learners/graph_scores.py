"""Scores of a model on graphs: correct answers, steps and floating-point operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import isnan, nan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch import Tensor

from graphut.experiments.tasks import LabelledGraph
from graphut.experiments.training.evaluation import score_batches
from graphut.experiments.training.learners.graph_batch import GraphBatch
from graphut.models import UniversalGraphTransformer
from graphut.nn import EventDriven, Ponder

_BATCH_NODES = 20_000
_RANGES = [*pairwise((0, 2, 4, 7, 11, 16, 26, 51, 101, 201, 501, 1001, 10_001, 10**9))]
"""Ranges of depths, each without its end: 0 and 1, 2 and 3, 4 to 6, ..."""

Column = NDArray[np.float64]


@dataclass(frozen=True)
class GraphScores:
    """The correctness of the answers, and the steps of the nodes, for several graphs.

    The answer of a whole graph is stored at its first node.
    """

    correct: Column  # (N,), 1 for a correct answer, 0 for a wrong one, NaN without a label
    log_probability: Column  # (N,), of the correct answer, in nats; NaN without a label
    steps: Column  # (N,)
    depth: Column  # (N,), NaN if it is not known
    graph: NDArray[np.int64]  # (N,), graph of each node
    groups: list[str]  # (G,)
    flops: int
    all_flops: int  # of the same model if every node took all steps
    needed_flops: float  # if every node took depth + 1 steps; NaN unless all depths are known
    # (G,) of each graph, with the rule `EventDriven`
    rounds: NDArray[np.int64] | None = None
    quiescent: NDArray[np.bool_] | None = None

    @classmethod
    def concatenate(cls, parts: Sequence[GraphScores]) -> GraphScores:
        """Concatenate the scores of several batches."""
        first = np.cumsum([0, *(len(part.groups) for part in parts)])
        columns = ("correct", "log_probability", "steps", "depth")
        flops = ("flops", "all_flops", "needed_flops")
        values: dict[str, Any] = {
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in columns},
            **{name: sum(getattr(part, name) for part in parts) for name in flops},
        }
        if parts[0].rounds is not None:
            for name in ("rounds", "quiescent"):
                values[name] = np.concatenate([getattr(part, name) for part in parts])
        graph = np.concatenate([p.graph + start for p, start in zip(parts, first, strict=False)])
        return cls(**values, graph=graph, groups=[group for part in parts for group in part.groups])

    def metrics(self) -> dict[str, Any]:
        """Return the metrics of `GraphLearner`."""
        known = ~np.isnan(self.depth)
        depth, steps = self.depth[known], self.steps[known]
        varied = len(set(depth)) > 1 and len(set(steps)) > 1
        wrong = set(self.graph[self.correct == 0])
        return {
            "accuracy": float(np.nanmean(self.correct)),
            "graph_accuracy": 1 - len(wrong) / len(self.groups),
            "log_probability": float(np.nanmean(self.log_probability)),
            "steps": float(self.steps.mean()),
            "rank_correlation": float(spearmanr(depth, steps)[0]) if varied else None,
            "work_ratio": None if isnan(self.needed_flops) else self.flops / self.needed_flops,
        }

    @property
    def answers(self) -> Column:
        """The entries of `correct` of nodes that have a label."""
        return self.correct[~np.isnan(self.correct)]

    def by_depth(self) -> list[dict[str, Any]]:
        """Return the mean depth, accuracy and steps of the nodes in each range of depths."""
        deepest = np.nanmax(self.depth, initial=-1)
        return [
            {
                "from": low,
                "to": min(high - 1, int(deepest)),
                "depth": float(self.depth[here].mean()),
                **self._means(here),
            }
            for low, high in _RANGES
            if (here := (self.depth >= low) & (self.depth < high)).any()
        ]

    def by_group(self) -> list[dict[str, Any]]:
        """Return the mean accuracy and steps of the nodes in each group of graphs."""
        groups = np.array(self.groups)
        return [
            {
                "group": name,
                **self._means((groups == name)[self.graph]),
                **self.activity(groups == name),
            }
            for name in sorted(set(self.groups))
        ]

    def activity(self, graphs: NDArray[np.bool_] | slice = slice(None)) -> dict[str, Any]:
        """Return the largest number of rounds and the share of quiescent graphs.

        The result is empty unless the rule was `EventDriven`.
        """
        if self.rounds is None or self.quiescent is None:
            return {}
        quiescent = float(self.quiescent[graphs].mean())
        return {"rounds": int(self.rounds[graphs].max()), "quiescent": quiescent}

    def _means(self, here: NDArray[np.bool_]) -> dict[str, Any]:
        correct = self.correct[here & ~np.isnan(self.correct)]
        accuracy = float(correct.mean()) if correct.size else None
        steps = float(self.steps[here].mean())
        return {"nodes": int(here.sum()), "accuracy": accuracy, "steps": steps}


def score_graphs(model: UniversalGraphTransformer, graphs: Sequence[LabelledGraph]) -> GraphScores:
    """Evaluate a model on graphs, in batches from the smallest graph to the largest.

    Large graphs need more rounds than the small graphs of the training set. So if the rule is
    `EventDriven` without `max_rounds`, the limit is 100 rounds plus 4 for each node of the largest
    graph.
    """
    largest = max((len(graph.nodes) for graph in graphs), default=1)
    with _enough_rounds(model, 4 * largest + 100):
        found = score_batches(
            partial(_score, model),
            graphs,
            max(1, _BATCH_NODES // largest),
            lambda graph: len(graph.nodes),
            "graphs",
        )
    scores = GraphScores.concatenate(found)
    if np.isnan(scores.correct).all():
        raise ValueError("no node of the graphs has a label to evaluate on")
    return scores


@contextmanager
def _enough_rounds(model: UniversalGraphTransformer, rounds: int) -> Iterator[None]:
    """Set `max_rounds` in a `with` block if the rule is `EventDriven` without such a limit."""
    rule = model.evaluation_rule
    if not isinstance(rule, EventDriven) or rule.max_rounds:
        yield
        return
    model.evaluation_rule = replace(rule, max_rounds=rounds)
    try:
        yield
    finally:
        model.evaluation_rule = rule


@torch.no_grad()
def _score(model: UniversalGraphTransformer, graphs: Sequence[LabelledGraph]) -> GraphScores:
    batch = GraphBatch.of(graphs, model.config.answer_at)
    with model.evaluating():
        output = batch.run(model)
    loss, correct = (each.cpu().numpy() for each in batch.answer_losses(model, output.logits))
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
        groups=[graph.group for graph in graphs],
        flops=int(ponder.flops),
        all_flops=int(ponder.all_flops),
        needed_flops=nan if (depth < 0).any() else needed_flops(ponder, torch.from_numpy(depth)),
        rounds=None if ponder.rounds is None else ponder.rounds.cpu().numpy(),
        quiescent=None if ponder.quiescent is None else ponder.quiescent.cpu().numpy(),
    )


def needed_flops(ponder: Ponder, depth: Tensor) -> int:
    """Return the floating-point operations if each node halted after `depth + 1` steps.

    A node that halts earlier than the deepest one is projected to keys and values once more, as
    with `halted="frozen"`.
    """
    steps, degrees = depth + 1, ponder.layouts[0].in_degrees.cpu()
    projected = steps.sum() + (steps < steps.max()).sum()
    edges = (steps * degrees).sum() * ponder.edge_flops
    return int(steps.sum() * ponder.node_flops + edges + projected * ponder.key_value_flops)
