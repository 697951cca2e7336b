import shutil
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import networkx
import numpy as np
import pytest
import torch

from graphut._files import read_json
from graphut.experiments.cli import show
from graphut.experiments.messages import flag
from graphut.experiments.tasks import Vocabulary
from graphut.experiments.training.learners import graph_scores
from graphut.experiments.training.learners.graph_batch import GraphBatch
from graphut.experiments.training.learners.graph_scores import score_graphs
from tests.experiments.cli.tiny import MODEL
from tests.experiments.training.learners.small_graphs import (
    LEARNER,
    TASKS,
    alone,
    make_model,
    whole,
)

Command = Callable[..., str]
TINY = "--epochs 2 --ponder-warmup 0 --epoch-size 16 --held-out 4 --sizes 3-6 --test-sizes 12"
OPTIONS = [*MODEL, *TINY.split(), "--max-steps", "3", "--test-nodes", "24"]


@pytest.mark.parametrize("answer_at", ["node", "edge", "graph"])
def test_outcome_and_scores_equal_graphs_one_by_one(
    answer_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_scores, "_BATCH_NODES", 20)
    task = TASKS["edge" if answer_at == "edge" else "node"]
    graphs = whole(task.test) if answer_at == "graph" else task.test
    model = make_model(task, answer_at=answer_at)
    by_graph = [alone(model, graph) for graph in sorted(graphs, key=lambda g: len(g.nodes))]
    likely, right = ([*chain(*column)] for column in zip(*by_graph, strict=True))
    outcome = LEARNER(model, {}).outcome(graphs, 0.0)
    assert outcome.loss.item() == pytest.approx(-np.mean(likely), abs=1e-5)
    assert (int(outcome.correct), outcome.labels) == (sum(right), len(right))
    scores = score_graphs(model, graphs)
    labelled = ~np.isnan(scores.correct)
    assert scores.correct[labelled].tolist() == right
    assert scores.log_probability[labelled].tolist() == pytest.approx(likely, abs=1e-5)
    metrics = scores.metrics("class")
    assert metrics["accuracy"] == pytest.approx(np.mean(right))
    by_graph_right = pytest.approx(np.mean([all(x[1]) for x in by_graph]))
    # It says nothing new about one answer for each graph, and little about a single graph.
    assert metrics["graph_accuracy"] == (None if answer_at == "graph" else by_graph_right)
    assert score_graphs(model, graphs[:1]).metrics("class")["graph_accuracy"] is None


def test_outcome_smooths_classes() -> None:
    model, graphs = make_model(TASKS["node"]), TASKS["node"].test
    batch = GraphBatch.of(graphs, "node")
    logs = model(batch.layout, batch.nodes).logits.log_softmax(-1)
    wanted = -(0.7 * logs.gather(1, batch.labels[:, None])[:, 0] + 0.3 * logs.mean(1)).mean()
    torch.testing.assert_close(LEARNER(model, {}).outcome(graphs, 0.3).total_loss(0.0), wanted)


@pytest.mark.parametrize("task", ["graph-bfs", "graph-reach"])
def test_graphs_are_trained_evaluated_and_shown(task: str, tmp_path: Path, output: Command) -> None:
    run = tmp_path / "run"
    text = output("train", task, "--out", run, *OPTIONS)
    assert "test, 4 graphs: " in text and "\nsteps " in text and " answers are correct" in text
    asked = {"max_steps": 9, "evaluation_rule": "threshold:threshold=0.2,halt_from=output"}
    options = [word for name, value in asked.items() for word in (flag(name), str(value))]
    assert "-12, 2 graphs: " in output("eval", run, *options)
    name = "max_steps=9,evaluation_rule=threshold_threshold=0.2,halt_from=output"
    assert read_json(run / f"evaluation-test,{name}.json")["options"] == asked


def test_graphs_that_wake_are_trained_and_evaluated(
    tmp_path: Path, output: Command, refusal: Command
) -> None:
    run = tmp_path / "run"
    words = ["train", "graph-bfs", "--preset", "waking", "--out", run, *OPTIONS]
    output(*words, "--test-families", "path")
    output("eval", run, "--max-steps", 1, "--set", "path-12")
    assert read_json(run / "evaluation-path-12,max_steps=1.json")["rounds"] == 1
    for name in ("wave.png", "wave.gif"):
        assert "answers are correct" in output("show", run, 2, "--out", tmp_path / name)
        assert (tmp_path / name).exists()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(show, "_LARGEST_GRAPH", 2)
        said = refusal("show", run, 1, "--out", tmp_path / "large.png")
        assert "the picture shows at most 2 nodes, but graph 1 has" in said
    said = refusal("show", run, 5, "--out", tmp_path / "a.png")
    assert "its number in the test set, 1 to 4; got '5'" in said


@pytest.mark.parametrize("answer_at", ["node", "edge", "graph"])
@pytest.mark.parametrize("layer", ["attention", "gin"])
def test_answers_mark_the_nodes_with_wrong_answers(answer_at: str, layer: str) -> None:
    task = TASKS.get(answer_at, TASKS["node"])
    graphs = whole(task.test) if answer_at == "graph" else task.test
    model = make_model(task, answer_at=answer_at, layer=layer)
    answers = LEARNER(model, task.vocabularies).answers(graphs)
    for graph, answer in zip(graphs, answers, strict=True):
        is_right = alone(model, graph)[1] if answer_at != "graph" else [True] * len(graph.nodes)
        scores = score_graphs(model, [graph])
        correct = scores.correct[~np.isnan(scores.correct)]
        assert answer.text == f"{int(correct.sum())} of {len(correct)} answers are correct"
        assert answer.is_correct == bool(correct.all())
        [part] = answer.parts
        nodes = enumerate(zip(graph.nodes, is_right, strict=True))
        kinds = task.node_kinds.symbols
        assert part.names == [f"{i} {kinds[k]}{'' if ok else ' (wrong)'}" for i, (k, ok) in nodes]
        assert part.ponder.steps.tolist() == scores.steps.tolist()
        recorded = part.ponder.attention
        assert (recorded is not None and len(recorded.weights) > 0) == (layer == "attention")
    assert {answer.is_correct for answer in answers} == {True, False} or answer_at != "graph"


def test_read_graphs_for_a_trained_model(tmp_path: Path) -> None:
    graph = networkx.path_graph(4)
    for node, data in graph.nodes(data=True):
        data.update(feat="marked" if node == 0 else "plain", label="yes" if node % 2 else "no")
    networkx.write_graphml(graph, tmp_path / "path.graphml")
    task = TASKS["node"]
    learner = LEARNER(make_model(task), task.vocabularies)
    [labelled] = learner.read(str(tmp_path), task)
    assert labelled.nodes.tolist() == [1, 0, 0, 0] and labelled.labels.tolist() == [0, 1, 0, 1]
    with pytest.raises(ValueError, match="where edges answer, labels cannot be read"):
        LEARNER(make_model(TASKS["edge"]), TASKS["edge"].vocabularies).read(
            str(tmp_path), TASKS["edge"]
        )
    others = {"node": Vocabulary(["plain"]), "answer": task.answers}
    with pytest.raises(ValueError, match=r"path\.graphml: .*'marked' is unknown"):
        LEARNER(make_model(task), others).read(str(tmp_path), task)
    with pytest.raises(ValueError, match="has labels of nodes, and the run answers for each graph"):
        LEARNER(make_model(task, answer_at="graph"), task.vocabularies).read(str(tmp_path), task)
    networkx.set_node_attributes(graph, {n: n > 1 for n in graph}, "test_mask")
    (tmp_path / "masked").mkdir()
    networkx.write_graphml(graph, tmp_path / "masked" / "path.graphml")
    [labelled] = learner.read(str(tmp_path / "masked"), task)
    assert labelled.labels.tolist() == [-1, -1, 0, 1]
    shutil.copy(tmp_path / "path.graphml", tmp_path / "masked" / "without_masks.graphml")
    assert len(learner.read(str(tmp_path / "masked"), task)) == 1
    for _, data in graph.nodes(data=True):
        del data["label"], data["test_mask"]
    networkx.write_graphml(graph, tmp_path / "unlabelled.graphml")  # nothing in it is asked
    assert len(learner.read(str(tmp_path), task)) == 1
