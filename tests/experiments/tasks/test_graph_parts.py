from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist

from graphut._dgl import dgl
from graphut.experiments.tasks import Graphs, write_arrays
from graphut.experiments.tasks.base import PARTS
from tests.experiments.training.together import run_together

COUNT = 30


def write_graph(folder: Path, labels: Any, **options: Any) -> Graphs:
    """Write a ring with features of nodes and edges, and return the task."""
    nodes = np.arange(COUNT)
    graph = dgl.graph((nodes, (nodes + 1) % COUNT))
    graph.ndata["feat"] = dgl.backend.tensor(np.stack([nodes, nodes % 3], 1))
    graph.ndata["label"] = dgl.backend.tensor(labels)
    graph.edata["feat"] = dgl.backend.tensor(nodes / 7)
    return Graphs(write_arrays(graph, folder), **options)


@pytest.mark.parametrize("target", ["class", "labels", "values"])
def test_read_part_returns_the_nodes_of_a_process(target: Any, tmp_path: Path) -> None:
    known = np.arange(COUNT) < 12  # so that a contiguous part has no label
    labels: Any = np.where(known, np.arange(COUNT) % 3, -1)
    if target != "class":
        rows = np.stack([np.arange(COUNT) % 2, np.arange(COUNT) % 3 > 0], 1)
        labels = np.where(known[:, None], rows.astype(np.float32), np.nan)
    whole = write_graph(tmp_path / "data", labels, target=target)
    for method in ("metis", "contiguous"):
        whole.divide(tmp_path / method, 2, method)

    def check() -> None:
        for method in ("metis", "contiguous"):
            task = Graphs(tmp_path / method, target=target)
            assert task.vocabularies == whole.vocabularies
            for name in ("answer_at", "num_feats", "edge_feats", "edge_types"):
                assert getattr(task, name) == getattr(whole, name)
            assert [*task.unchecked_files] == ["data"]
            assert task.description.startswith("read the first part of a graph, ")
            for name in PARTS:
                [graph], [expected] = task.load(name), whole.load(name)
                nodes = graph.part.nodes.numpy()
                np.testing.assert_array_equal(graph.nodes, expected.nodes[nodes])
                np.testing.assert_array_equal(graph.labels, expected.labels[nodes])
                ids = np.concatenate([nodes, graph.part.halo_nodes.numpy()])
                edges = {tuple(edge) for edge in ids[graph.edges].T.tolist()}
                mine = np.isin(expected.edges[1], nodes)
                assert edges == {tuple(edge) for edge in expected.edges[:, mine].T.tolist()}
                assert graph.edge_feats is not None and expected.edge_feats is not None
                np.testing.assert_array_equal(graph.edge_feats, expected.edge_feats[mine])
        assert not (dist.get_rank() and graph.has_label.any())

    run_together(check, tmp_path)


def test_divide_refuses(tmp_path: Path) -> None:
    task = write_graph(tmp_path / "data", np.arange(COUNT) % 3)
    parts = Graphs(task.divide(tmp_path / "parts", 2))
    with pytest.raises(ValueError, match="parts must hold one whole graph to be cut"):
        parts.divide(tmp_path / "again", 2)
    graph = dgl.graph(([0], [1]))
    graphs = Graphs(write_arrays([(graph, 0), (graph, 1)], tmp_path / "graphs"))
    with pytest.raises(ValueError, match="graphs must hold one whole graph to be cut"):
        graphs.divide(tmp_path / "again", 2)
    with pytest.raises(ValueError, match="parts must be at least 1 and at most 30 nodes, got 31"):
        task.divide(tmp_path / "again", 31)
    weighted = Graphs(tmp_path / "parts", class_weights="balanced")
    with pytest.raises(ValueError, match="class_weights must be '' for parts, got 'balanced'"):
        weighted.check_config(None)  # type: ignore[arg-type]
