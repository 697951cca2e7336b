from __future__ import annotations

from pathlib import Path

import networkx
import pytest

from graphut.experiments.tasks.graph_readers import read_graphs
from graphut.experiments.training.learners.graph_predictions import prediction_rows
from tests.experiments.training.learners.small_graphs import TASKS, make_model


def test_prediction_rows_ignore_labels_and_name_unknown_kinds(tmp_path: Path) -> None:
    graph = networkx.path_graph(3)
    for node, data in graph.nodes(data=True):
        data.update(feat="plain" if node else "marked", label="unknown")
    networkx.write_graphml(graph, tmp_path / "path.graphml")
    model, names = make_model(TASKS["node"]), TASKS["node"].vocabularies
    rows = [*prediction_rows(model, read_graphs(tmp_path), names)]
    assert [row["node"] for row in rows] == ["0", "1", "2"]
    assert {row["class"] for row in rows} <= {*TASKS["node"].answers.symbols}
    graph.nodes[1]["feat"] = "red"
    networkx.write_graphml(graph, tmp_path / "path.graphml")
    with pytest.raises(ValueError, match=r"path\.graphml: the kind of node 'red' is unknown"):
        [*prediction_rows(model, read_graphs(tmp_path), names)]
