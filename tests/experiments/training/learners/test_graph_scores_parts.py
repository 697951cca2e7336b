"""Scores and scales of a graph in parts, compared with the whole graph."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from graphut.distributed import cut_graph
from graphut.experiments.tasks import LabelledGraph
from graphut.experiments.training.learners.graph_scores import score_graphs
from graphut.experiments.training.learners.graphs import GraphLearner
from graphut.models import UniversalGraphTransformer, UniversalGraphTransformerConfig
from graphut.models.graph_inputs import num_nodes
from tests.experiments.training.together import run_together
from tests.helpers import assert_same
from tests.nn.cases import randomised

COUNT = 14
NODES = np.arange(COUNT)
EDGES = np.stack([[*NODES, *NODES], [*NODES, *np.roll(NODES, 1)]])
PART_OF = NODES // 9  # two parts of unequal size
RANDOM = np.random.default_rng(0)
FEATS = RANDOM.normal(size=(COUNT, 3))


def make_graph(labels: Any, *, divided: bool = False) -> LabelledGraph:
    """Return a ring, or the part of this process."""
    if not divided:
        return LabelledGraph(EDGES, FEATS, labels)
    part = [*cut_graph(EDGES, PART_OF)][dist.get_rank()]
    own = part.nodes.numpy()
    return LabelledGraph(part.edges.numpy(), FEATS[own], labels[own], part=part)


def make_model(**options: Any) -> UniversalGraphTransformer:
    sizes = {"num_feats": 3, "classes": 3, "d_model": 8, "num_heads": 2, "d_hidden": 8}
    config = UniversalGraphTransformerConfig(**sizes, max_steps=4, **options)  # type: ignore[arg-type]
    model: UniversalGraphTransformer = randomised(UniversalGraphTransformer(config))
    return model


def test_score_graphs_of_a_graph_in_parts(tmp_path: Path) -> None:
    labels = np.where(NODES < 9, NODES % 3, -1)  # the second part has no label
    waking = {"adaptive": False, "step_signal": "none", "evaluation_rule": "event_driven:tol=0.3"}
    models = [make_model(), make_model(**waking)]
    expected = [score_graphs(model, [make_graph(labels)]) for model in models]

    def check() -> None:
        graph = make_graph(labels, divided=True)
        assert num_nodes(graph) == COUNT
        for model, wanted in zip(models, expected, strict=True):
            scores = score_graphs(model, [graph])
            for name in ("correct", "log_probability", "steps", "predictions", "targets"):
                np.testing.assert_allclose(getattr(scores, name), getattr(wanted, name), rtol=1e-5)
            assert scores.metrics("class").keys() == wanted.metrics("class").keys()
            np.testing.assert_allclose(
                *([x for x in each.metrics("class").values() if x] for each in (scores, wanted)),
                rtol=1e-5,
            )
            assert scores.activity() == wanted.activity() and len(scores.by_group()) == 1

    run_together(check, tmp_path)


def test_prepare_of_a_graph_in_parts(tmp_path: Path) -> None:
    labels = RANDOM.normal(size=(COUNT, 3))
    labels[9:] = np.nan  # the second part has no label

    class Task:
        def train(self, seed: int, epoch: int) -> list[LabelledGraph]:
            return [make_graph(labels, divided=dist.is_initialized())]

    def scales() -> list[torch.Tensor]:
        model, task = make_model(answer_kind="values"), Task()
        GraphLearner(model, {}).prepare(task)  # type: ignore[arg-type]
        return [model.value_mean, model.value_scale]

    expected = scales()
    run_together(lambda: assert_same(scales(), expected), tmp_path)
