from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import pytest
import torch

import graphut
from tests.experiments.cli.tiny import MODEL
from tests.helpers import read_rows, refuses

Command = Callable[..., str]


def write_letters(path: Path) -> Path:
    """A graph of nodes with letters as ids; the last has no label."""
    graph = networkx.relabel_nodes(networkx.path_graph(12), dict(enumerate("abcdefghijkl")))
    for number, (_, data) in enumerate(graph.nodes(data=True)):
        data.update(feat=f"{number},1", label=["low", "high"][number > 5] if number < 11 else "")
    networkx.write_graphml(graph, path)
    return path


def test_predict_writes_a_row_for_each_node(
    tmp_path: Path, output: Command, refusal: Command
) -> None:
    data, run = write_letters(tmp_path / "letters.graphml"), tmp_path / "run"
    output("train", "graphs", "--data", data, "--out", run, *MODEL)
    said = output("predict", run, "--data", data, "--out", tmp_path / "found.csv")
    assert said == f"12 predictions for 1 graph in {tmp_path / 'found.csv'}\n"
    said = refusal("predict", run, "--data", "missing", "--out", tmp_path / "p.csv")
    assert "there is no missing: name a .graphml file" in said
    rows = read_rows(tmp_path / "found.csv")
    assert [row["node"] for row in rows] == [*"abcdefghijkl"]
    assert {row["graph"] for row in rows} == {"letters.graphml"}
    assert [*rows[0]] == ["graph", "node", "class", "probability_high", "probability_low", "steps"]
    for row in rows:
        high, low = float(row["probability_high"]), float(row["probability_low"])
        assert high + low == pytest.approx(1)
        assert row["class"] == ("high" if high > low else "low")


def test_predict_needs_no_labels_and_equals_python(tmp_path: Path, output: Command) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    for index in range(20):
        graph = (networkx.cycle_graph if index % 2 else networkx.path_graph)(3 + index)
        graph.graph["label"] = "ring" if index % 2 else "path"
        networkx.write_graphml(graph, data / f"{index:02}.graphml")
    output("train", "graphs", "--data", data, "--out", run, *MODEL)
    networkx.write_graphml(networkx.cycle_graph(7), tmp_path / "new.graphml")
    output("predict", run, "--data", tmp_path / "new.graphml", "--out", tmp_path / "found.csv")
    [row] = read_rows(tmp_path / "found.csv")
    assert [*row] == ["graph", "class", "probability_path", "probability_ring", "steps"]
    ring = graphut._dgl.dgl.to_bidirected(graphut._dgl.dgl.graph(([*range(7)], [*range(1, 7), 0])))
    model: Any = graphut.load(run)
    [found] = model.predict([ring])
    assert found.labels == [row["class"]]
    shares = [float(row["probability_path"]), float(row["probability_ring"])]
    torch.testing.assert_close(found.probabilities[0], torch.tensor(shares))
    assert found.steps.double().mean().item() == pytest.approx(float(row["steps"]))


def test_predict_refuses_a_model_that_chooses_edges(
    tmp_path: Path, output: Command, refusal: Command
) -> None:
    sizes = "--epoch-size 8 --held-out 2 --sizes 3-6 --test-sizes 12 --test-families path"
    output("train", "graph-bfs", "--out", tmp_path / "run", *sizes.split(), *MODEL)
    networkx.write_graphml(networkx.path_graph(4), data := tmp_path / "path.graphml")
    said = refusal("predict", tmp_path / "run", "--data", data, "--out", tmp_path / "found.csv")
    assert "the model chooses edges: load it in Python" in said


def test_predict_reads_a_folder_of_save_pretrained_and_names_of_kinds(
    tmp_path: Path, output: Command, refusal: Command
) -> None:
    graph, data, run = networkx.path_graph(12), tmp_path / "atoms.graphml", tmp_path / "run"
    for number, (_, row) in enumerate(graph.nodes(data=True)):
        row.update(feat=["carbon", "oxygen"][number % 2], label=["low", "high"][number > 5])
    networkx.write_graphml(graph, data)
    output("train", "graphs", "--data", data, "--out", run, *MODEL)
    model = graphut.load(run)
    assert isinstance(model, graphut.UniversalGraphTransformer)
    [found] = model.predict(graph)
    assert {*found.labels} <= {"low", "high"}
    model.save_pretrained(tmp_path / "saved")
    rows = []
    for folder in (run, tmp_path / "saved"):
        output("predict", folder, "--data", data, "--out", tmp_path / "found.csv")
        rows.append(read_rows(tmp_path / "found.csv"))
    assert rows[0] == rows[1] and [row["class"] for row in rows[0]] == found.labels
    graph.nodes[3]["feat"] = "gold"
    refuses("the kind of node 'gold' is unknown; known are carbon, oxygen", model.predict, graph)
    model.vocabularies = {}
    model.save_pretrained(tmp_path / "saved")
    said = refusal("predict", tmp_path / "saved", "--data", data, "--out", tmp_path / "p.csv")
    assert "the model has 2 kinds of nodes: set" in said
    assert "has no test graphs" in refusal("show", tmp_path / "saved", "1", "--out", "a.png")
