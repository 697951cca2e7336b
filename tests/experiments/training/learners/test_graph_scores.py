import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from graphut.experiments.tasks.graph_problems import GraphDistance
from graphut.experiments.training.learners import graph_scores
from graphut.experiments.training.learners.graph_batch import GraphBatch
from graphut.experiments.training.learners.graph_scores import needed_flops, score_graphs
from graphut.models.graph_inputs import until_quiescent
from graphut.nn import AdaptiveRecurrence, EventDriven, ScheduledHalting
from tests.experiments.training.learners.small_graphs import (
    LEARNER,
    TASKS,
    make_model,
    waking_model,
)
from tests.nn.cases import build_step


def test_scores_leave_out_nodes_that_are_not_asked() -> None:
    model, graphs = make_model(TASKS["node"]), TASKS["node"].test
    first = [g._replace(labels=np.where(np.arange(len(g.nodes)) > 0, -1, g.labels)) for g in graphs]
    scores = score_graphs(model, first)
    assert (~np.isnan(scores.correct)).sum() == len(graphs) < len(scores.steps)
    none = [graph._replace(labels=np.full(len(graph.nodes), -1)) for graph in graphs]
    assert LEARNER(model, {}).outcome(none, 0.0).total_loss(0.0) == 0
    with pytest.raises(ValueError, match="no node of the graphs has an answer"):
        score_graphs(model, none)


def test_scores_by_depth_equal_means_over_nodes() -> None:
    model, graphs = make_model(TASKS["node"]), TASKS["node"].test
    scores = score_graphs(model, graphs)
    for row in scores.by_depth():
        here = (scores.depth >= row["from"]) & (scores.depth <= row["to"])
        assert row["nodes"] == here.sum()
        assert row["accuracy"] == pytest.approx(scores.correct[here].mean())
        assert row["steps"] == pytest.approx(scores.steps[here].mean())
    assert sum(row["nodes"] for row in scores.by_depth()) == len(scores.depth)
    correlation = scores.metrics("class")["rank_correlation"]
    assert correlation == pytest.approx(spearmanr(scores.depth, scores.steps)[0])


def test_scores_of_unknown_depths_have_no_correlation_and_no_work_ratio() -> None:
    model, graphs = make_model(TASKS["node"]), TASKS["node"].test
    metrics = score_graphs(model, [graph._replace(depth=None) for graph in graphs]).metrics("class")
    assert metrics["rank_correlation"] is None and metrics["work_ratio"] is None
    assert "depth" not in str(LEARNER.evaluation(**metrics))
    assert "work" in str(LEARNER.evaluation(**score_graphs(model, graphs).metrics("class")))


def test_scores_by_events_have_rounds_and_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_scores, "_BATCH_NODES", 20)
    graphs = TASKS["node"].test
    model = waking_model(quantize=1)
    scores = score_graphs(model, graphs)
    assert scores.rounds is not None and scores.quiescent is not None
    assert model.evaluation_rule == EventDriven()  # the limit of rounds was for these graphs
    assert scores.quiescent.all() and scores.rounds.max() < 100
    details = LEARNER(model, {}).evaluate_in_detail(graphs)[1]
    assert (details["rounds"], details["quiescent"]) == (scores.rounds.max(), 1)
    for place, graph in enumerate(sorted(graphs, key=lambda graph: len(graph.nodes))):
        alone = score_graphs(model, [graph])
        assert alone.rounds is not None and alone.rounds[0] == scores.rounds[place]
        assert alone.steps.tolist() == scores.steps[scores.graph == place].tolist()
    model.evaluation_rule = EventDriven(max_rounds=1)
    _, details = LEARNER(model, {}).evaluate_in_detail(graphs)
    assert (details["rounds"], details["quiescent"]) == (1, 0)


def test_scores_by_events_stop_after_rounds_that_grow_with_the_graphs() -> None:
    graph = GraphDistance(held_out=1, sizes="5-5").test[0]
    model = waking_model()
    with until_quiescent(model, 2):
        assert model.evaluation_rule == EventDriven(max_rounds=108)
    model.encoder.step.transition.layers[-1].weight.data.mul_(40)  # chaotic: it never rests
    scores = score_graphs(model, [graph])
    assert scores.rounds is not None and scores.rounds.tolist() == [4 * 5 + 100]


def test_needed_flops_are_those_of_halting_after_one_step_more_than_the_depth() -> None:
    graph = GraphDistance(held_out=1, sizes="30-30").test[0]
    layout = GraphBatch.of([graph], "node").layout
    assert graph.depth is not None
    depth = torch.from_numpy(graph.depth)
    halting = ScheduledHalting(depth + 1, share=1e-4)
    layer = AdaptiveRecurrence(build_step(), halting, max_steps=60, halted="frozen")
    _, ponder = layer(layout, torch.randn(30, 8, dtype=torch.float64))
    assert ponder.steps.tolist() == (depth + 1).tolist()
    assert needed_flops(ponder, depth) == int(ponder.flops)
