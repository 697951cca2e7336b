import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from graphut.experiments.report import RunRecord
from graphut.experiments.tasks.own_graphs import Graphs
from graphut.experiments.training import Run, Trainer, TrainingConfig, evaluate
from graphut.experiments.training.learners import learner_of
from graphut.experiments.training.learners.graphs import GraphLearner
from graphut.experiments.training.run_files import read_metrics
from tests.experiments.cli.tiny import MODEL
from tests.experiments.training.learners.small_models import small_model
from tests.helpers import read_rows

Command = Callable[..., str]
LABELS: dict[str, Callable[[int], Any]] = {
    "class": lambda n: "odd" if n % 2 else "even",
    "values": lambda n: [100 + 0.5 * n, -3.0 * n],
}


def write(folder: Path, target: str, at: str) -> Path:
    """Graphs with edge weights and features; labels at nodes, or of the graphs."""
    folder.mkdir()
    for index in range(20 if at == "graph" else 2):
        graph = networkx.cycle_graph(4 + index)
        graph.graph |= {"label": LABELS[target](index)} if at == "graph" else {}
        for node, data in graph.nodes(data=True):
            data |= {"feat": [node, 1.0], "colour": "red"}
            data |= {"label": LABELS[target](node) if node != 3 else ""} if at == "node" else {}
        for number, (_, _, data) in enumerate(graph.edges(data=True)):
            data |= {"weight": 0.5 + number, "feat": [number, number % 2]}
        text = json.dumps(networkx.node_link_data(graph, edges="edges"))
        (folder / f"{index:02}.json").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("target", "at"),
    [("class", "node"), ("class", "graph"), ("values", "node"), ("values", "graph")],
)
def test_own_graphs_are_trained_evaluated_and_predicted(
    target: str, at: str, tmp_path: Path, output: Command, refusal: Command
) -> None:
    data, run, out = write(tmp_path / "data", target, at), tmp_path / "run", tmp_path / "out.csv"
    words = ["train", "graphs", "--data", data, "--target", target, "--out", run]
    said = " ".join(output(*words, *MODEL).split())
    answers = {"class": "2 classes", "values": "2 values"}[target]
    assert f"2 edge features, edge weights, {answers}, " in said
    split, rest = ("16/2/2 graphs", "") if at == "graph" else ("5/1/1 nodes", ", 2 nodes without a")
    assert f"{split} for training/validation/test{rest}" in said
    assert (", mae " in said) == (target == "values")
    count = len(Run.open(run).task().test)
    assert output("eval", run).startswith(f"test, {count} graph{'s' * (count > 1)}: ")
    record = RunRecord.of(Run.open(run))
    assert ("mae" in record.metrics) == (target == "values")
    [evaluation] = record.evaluations.values()
    assert None not in [evaluation[metric] for metric in record.metrics]
    output("eval", run, "--data", data)
    output("predict", run, "--data", data, "--out", out)
    rows = read_rows(out)
    assert len(rows) == (20 if at == "graph" else 9)
    columns = {
        "class": ["class", "probability_even", "probability_odd"],
        "values": ["value_0", "value_1"],
    }[target]
    assert [*rows[0]] == ["graph", *["node"] * (at == "node"), *columns, "steps"]
    Path(data, "00.json").write_text(Path(data, "00.json").read_text() + "\n")
    assert f"{data} has changed since the run" in refusal("eval", run)


def test_prepare_standardises_values_inside(tmp_path: Path) -> None:
    task = Graphs(write(tmp_path / "data", "values", "graph"), target="values")
    learner = learner_of(task)
    assert learner is GraphLearner
    model = small_model(learner, task)
    Trainer(model, task, TrainingConfig(), tmp_path / "run")
    labels = np.concatenate([graph.labels for graph in task.load("train")])
    np.testing.assert_allclose(model.value_mean, labels.mean(0), rtol=1e-6)
    np.testing.assert_allclose(model.value_scale, labels.std(0), rtol=1e-6)
    outcome = learner(model, {}).outcome(task.load("train"), 0.0)
    predictions = model.predict(task.load("train"))
    error = (np.concatenate([each.values for each in predictions]) - labels) / labels.std(0)
    assert outcome.loss.item() == pytest.approx(np.square(error).mean(), rel=1e-4)
    assert int(outcome.correct) == (np.abs(error) < 0.5).all(1).sum()


def test_choose_by_a_metric_of_another_target_says_so(
    tmp_path: Path, output: Command, refusal: Command
) -> None:
    data, run = write(tmp_path / "data", "values", "graph"), tmp_path / "run"
    words = ["train", "graphs", "--data", data, "--target", "values", "--out", run, *MODEL]
    said = refusal(*words, "--choose-by", "auc")
    assert "or one of its metrics mae, r2; got 'auc'" in said
    assert not (run / "config.json").exists()
    output(*words, "--choose-by", "mae", "--epochs", 3)
    lines = read_metrics(run / "metrics.jsonl")
    model, task = Run.open(run).model(), Run.open(run).task()
    best = min(line["validation"]["mae"] for line in lines)
    assert evaluate(model, task, task.validation)["mae"] == pytest.approx(best)
