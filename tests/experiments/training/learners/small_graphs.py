"""Small tasks on graphs, and models for them."""

from functools import partial
from typing import Any

import numpy as np
import torch

from graphut.experiments.tasks import LabelledGraph
from graphut.experiments.tasks.graph_problems import GraphBFS, GraphDistance
from graphut.experiments.training.learners.graph_batch import GraphBatch
from graphut.experiments.training.learners.graphs import GraphLearner
from graphut.models import UniversalGraphTransformer
from tests.experiments.training.learners.small_models import small_model

LEARNER = GraphLearner
TASKS: dict[str, Any] = {
    "node": GraphDistance(held_out=7, test_sizes="", sizes="3-9", families="near,path"),
    "edge": GraphBFS(held_out=7, test_sizes="", sizes="3-9"),
}
make_model = partial(small_model, LEARNER)


def whole(graphs: list[LabelledGraph]) -> list[LabelledGraph]:
    """The same graphs, each with one label in place of those of its nodes."""
    return [graph._replace(labels=graph.labels[:1]) for graph in graphs]


def alone(model: UniversalGraphTransformer, graph: LabelledGraph) -> tuple[list[float], list[bool]]:
    """Log-probabilities of the right answers of a graph, and if they are given, one by one."""
    batch = GraphBatch.of([graph], model.config.answer_at)
    with torch.no_grad():
        logits = model.eval()(batch.layout, batch.nodes).logits
    if model.config.answer_at != "edge":
        rows = [(row, y) for row, y in zip(logits.log_softmax(-1), graph.labels, strict=True)]
        rows = [(row, y) for row, y in rows if y >= 0]
        return [float(row[y]) for row, y in rows], [int(row.argmax()) == y for row, y in rows]
    likely, right = [], []
    for node in range(len(graph.nodes)):
        shares = {e: float(logits[e].exp()) for e in np.flatnonzero(graph.edges[1] == node)}
        likely.append(np.log(sum(share for e, share in shares.items() if graph.labels[e])))
        right.append(bool(graph.labels[max(shares, key=shares.__getitem__)]))
    return likely, right


def waking_model(**options: Any) -> UniversalGraphTransformer:
    shape: dict[str, Any] = {"adaptive": False, "step_signal": "none", "inject_input": True}
    return make_model(TASKS["node"], evaluation_rule="event_driven", **shape, **options)
