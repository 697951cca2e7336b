from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from graphut._dgl import dgl
from graphut.experiments.tasks.base import PARTS
from graphut.experiments.tasks.graph_arrays import write_arrays
from graphut.experiments.tasks.graph_readers import read_graphs
from graphut.experiments.tasks.own_graphs import Graphs
from graphut.models.config import UniversalGraphTransformerConfig
from graphut.models.graph_inputs import as_input
from tests.experiments.training.together import run_together
from tests.helpers import refuses

ARRAYS: dict[str, Any] = {
    "edges": np.array([[0, 3, 1, 4], [1, 4, 2, 3]], np.uint64),
    "graphs": np.array([0, 0, 0, 1, 1], np.uint8),
    "features": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0], [8.0, 9.0]],
    "labels": ["a", "b", "", "b", "a"],
    "train_mask": [1, 0, 0, 1, 0],
    "val_mask": [0, 1, 0, 0, 0],
    "test_mask": [False, False, False, False, True],
    "edge_weights": [1.0, 2.0, 3.0, 4.0],
    "edge_types": [7, 8, 7, 7],
    "extra": [1],
}


def save(folder: Path, **changed: Any) -> Path:
    folder.mkdir(exist_ok=True)
    for name, values in {**ARRAYS, **changed}.items():
        if values is not None:
            np.save(folder / f"{name}.npy", np.array(values))
    return folder


def test_read_arrays_of_two_graphs(tmp_path: Path) -> None:
    task = Graphs(save(tmp_path / "data"))
    assert task.answers.symbols == ("a", "b") and task.edge_types == ["7", "8"]
    labels = [[graph.labels.tolist() for graph in task.load(part)] for part in PARTS]
    assert labels == [[[0, -1, -1], [1, -1]], [[-1, 1, -1]], [[-1, 0]]]
    one, other = task.load("train")
    assert one.edges.tolist() == [[0, 1, 0, 1, 2], [1, 2, 0, 1, 2]]
    assert other.edges.tolist() == [[0, 1, 0, 1], [1, 0, 0, 1]]
    assert other.nodes.tolist() == [[6, 7], [8, 9]]
    assert one.edge_weights is not None and one.edge_weights.tolist() == [1, 3, 1, 1, 1]
    assert other.edge_feats is not None
    assert other.edge_feats.tolist() == [[0, 1], [1, 0], [0, 0], [0, 0]]
    assert "; not used: extra.npy" in task.description
    assert [file.ids for file in read_graphs(tmp_path / "data")] == [[0, 1, 2], [3, 4]]


def test_read_arrays_with_labels_of_graphs(tmp_path: Path) -> None:
    masks = dict.fromkeys(("train_mask", "val_mask", "test_mask"))
    changed = {"labels": [[1.5, 2.0], [3.0, 4.0]], "features": ["C", "O", "C", "N", "C"]}
    one, other = read_graphs(save(tmp_path / "data", **changed, **masks), "values")
    assert one.labels is None and one.kinds == ["C", "O", "C"]
    assert isinstance(one.label, np.ndarray) and one.label.tolist() == [[1.5, 2]]
    assert other.has_label.all() and other.kinds == ["N", "C"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"edges": None}, r"it needs edges\.npy, \(2, E\) integers"),
        ({"edges": [[0.5], [1.0]]}, r"it needs edges\.npy, \(2, E\) integers"),
        ({"edges": [[0], [9]]}, "an edge has node 9, but there are 5 nodes in graphs.npy"),
        ({"edges": [[0], [9]], "graphs": None}, "there are 5 nodes in features.npy"),
        ({"edges": [[0], [-1]]}, "an edge has node -1, but there are 5 nodes"),
        ({"edges": [[0], [4]]}, "edge number 0 joins two graphs"),
        ({"features": [[1] * 20 + [np.nan]] * 5}, r"0 has \[nan\] in `feat`; expected finite"),
        ({"graphs": [0, 1, 0, 1, 1]}, "graphs.npy must hold the number of the graph of each node"),
        ({"labels": [1, 2, 3]}, "labels.npy has 3 rows; expected 5, as there are 5 nodes"),
        ({"edge_weights": [1.0]}, r"edge_weights\.npy has 1 rows; expected 4"),
        ({"features": [1.0]}, r"features\.npy has 1 rows; expected 5"),
        ({"features": [[np.nan]] * 5}, r"has \[nan\] in `feat`; expected finite numbers"),
        ({"features": [[1.0, -1e30]] * 5}, r"node 0 has \[-1e\+30\] .* from -1e\+15 to 1e\+15"),
        ({"edge_features": [1, 2, 3, 1e300]}, r"from 4 to 3 has \[1e\+300\] in `feat`; expected"),
        ({"train_mask": [[1, 0]] * 5}, r"shape \(3, 2\), .* column: .* graph\.train_mask\[:, 0\]"),
        ({"edge_weights": [[1.0, 2.0]] * 4}, r"the weight \[1\.0, 2\.0\], .* as `feat`"),
        ({"graphs": [[0]] * 5}, r"graphs\.npy must be \(N,\) integers"),
        ({"graphs": [0.0] * 5}, r"graphs\.npy must be \(N,\) integers"),
        ({"features": [["a", "b"]] * 5}, r"node 0 has \['a', 'b'\] in `feat`, which is neither"),
        ({"edge_types": [[1, 2]] * 4}, r"type of an edge must be one name or number; got \[1, 2\]"),
        ({"test_mask": [1, 0, 0, 0, 0]}, "node 0 is in train_mask and in test_mask"),
        ({"train_mask": [1, np.nan, 0, 0, 0]}, "train_mask is nan; expected true or false, 1 or 0"),
        ({"train_mask": [1, -1, 0, 0, 0]}, "train_mask is -1; expected"),
        ({"labels": [1j] * 5}, r"labels\.npy is not a \.npy file of numbers or text: its values"),
        ({"graph_test_mask": [1]}, r"graph_test_mask\.npy has 1 rows; expected 2"),
    ],
)
def test_read_arrays_refuses(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    refuses(rf"data.*{message}", getattr, Graphs(save(tmp_path / "data", **changed)), "test")


def test_read_arrays_without_numbers_in_features(tmp_path: Path) -> None:
    one, _ = read_graphs(save(tmp_path / "data", features=np.zeros((5, 0))))
    assert one.kinds == ["node"] * 3 and one.features is None


def test_read_arrays_refuses_pickle(tmp_path: Path) -> None:
    np.save(save(tmp_path / "data") / "labels.npy", np.array([{}]), allow_pickle=True)
    refuses(r"labels\.npy is not a \.npy file of numbers or text", read_graphs, tmp_path / "data")


def test_write_arrays_of_dgl_reads_back(tmp_path: Path) -> None:
    graph = dgl.graph(([0, 1, 2], [1, 2, 0]))
    graph.ndata["feat"] = torch.rand(3, 2)
    graph.ndata["label"] = torch.tensor([3, 3, 12])
    graph.edata["weight"] = torch.tensor([1.0, 2.0, 5.0])
    read = read_graphs(write_arrays([graph, graph], tmp_path / "data"))
    assert [each.labels for each in read] == [["3", "3", "12"]] * 2
    expected = as_input(graph, UniversalGraphTransformerConfig(num_feats=2, classes=2))
    for each in read:
        assert each.edges.tolist() == expected.edges.tolist()
        np.testing.assert_array_equal(each.of_edges.weights, expected.edge_weights)
        np.testing.assert_array_equal(np.asarray(each.features, np.float32), expected.nodes)
    with pytest.raises(FileExistsError, match="data is not empty"):
        write_arrays(graph, tmp_path / "data")
    with pytest.raises(ValueError, match="only 1 of 2 graphs have features"):
        write_arrays([graph, dgl.rand_graph(2, 2)], tmp_path / "other")


def test_write_arrays_of_datasets_of_pyg(tmp_path: Path) -> None:
    datasets = pytest.importorskip("torch_geometric.datasets")
    [karate] = read_graphs(write_arrays(datasets.KarateClub(), tmp_path / "karate"))
    assert karate.labels is not None and karate.num_nodes == len(karate.labels) == 34
    fake = datasets.FakeDataset(num_graphs=7, avg_num_nodes=9)
    for number, graphs in enumerate((fake, fake[:5])):
        read = read_graphs(write_arrays(graphs, tmp_path / str(number)))
        assert [each.num_nodes for each in read] == [each.num_nodes for each in graphs]
        assert [each.label for each in read] == [[str(int(each.y))] for each in graphs]


@pytest.mark.parametrize(
    "label", [4, 0.5, [4, 5], torch.tensor([4.0]), torch.tensor([4, 5]), torch.tensor([[0.5, 1.0]])]
)
def test_write_arrays_of_small_graphs_with_labels_of_graphs(label: Any, tmp_path: Path) -> None:
    data = pytest.importorskip("torch_geometric.data")
    edges = torch.zeros(2, 0, dtype=torch.int64)
    graphs = [data.Data(torch.rand(n, 3), edge_index=edges, y=label) for n in (1, 2, 3)]
    for each in read_graphs(write_arrays(graphs, tmp_path / "data"), "values"):
        assert isinstance(each.label, np.ndarray)
        assert each.label.tolist() == torch.as_tensor(label).view(1, -1).tolist()


def test_write_arrays_says_what_has_labels(tmp_path: Path) -> None:
    pairs = [(dgl.rand_graph(1, 1), torch.tensor(k)) for k in range(3)]
    read = read_graphs(write_arrays(pairs, tmp_path / "graphs"))
    assert [(each.labels, each.label) for each in read] == [(None, [str(k)]) for k in range(3)]
    for graph, label in pairs:
        graph.ndata.update(label=label[None], train_mask=torch.tensor([True]))
    read = read_graphs(write_arrays([graph for graph, _ in pairs], tmp_path / "nodes"))
    assert [(each.labels, each.label) for each in read] == [([str(k)], None) for k in range(3)]
    read = read_graphs(write_arrays(pairs, tmp_path / "masks"))
    assert [each.masks["train"].tolist() for each in read] == [[True]] * 3
    old = {"labels": ["a", "b"], "train_mask": [1, 0], "val_mask": [0, 1], "test_mask": [0, 0]}
    one, other = read_graphs(save(tmp_path / "old", **old))  # as version 0.2.0 wrote them
    assert (one.label, other.label) == (["a"], ["b"]) and other.masks["validation"].all()


def test_write_arrays_of_graphs_without_edges(tmp_path: Path) -> None:
    data = pytest.importorskip("torch_geometric.data")
    none, some = torch.zeros(2, 0, dtype=torch.int64), torch.tensor([[0], [1]])
    graphs = [
        data.Data(torch.rand(1, 2), none, y=0),
        data.Data(torch.rand(2, 2), some, torch.tensor([[5.0, 6.0]]), y=1),
        data.Data(torch.rand(1, 2), none, torch.zeros(0, 2), y=1),
    ]
    task = Graphs(write_arrays(graphs, tmp_path / "data"))
    feats = [graph.edge_feats.tolist() for part in PARTS for graph in task.load(part)]
    assert sorted(feats) == [[[0, 0]], [[0, 0]], [[5, 6], [0, 0], [0, 0]]]


def test_write_arrays_refuses_and_writes_nothing(tmp_path: Path) -> None:
    data = pytest.importorskip("torch_geometric.data")
    edges = torch.tensor([[0], [2]])
    one = data.Data(torch.rand(3, 3), edges)
    wide, narrow, none = (data.Data(one.x, edges, y=y) for y in (torch.rand(1, 2), 1, [None]))
    empty, short = (data.Data(torch.rand(n, 3), edges[:, : n // 2]) for n in (0, 2))
    for graphs, message in (
        ([], r"expected at least one graph, got \[\]"),
        (data.HeteroData(), "expected a homogeneous DGL graph or a Data of PyG .*got HeteroData"),
        ([wide, narrow], r"the shapes \(1, 2\) and \(1, 1\): give"),
        ([none], r"y are neither numbers nor text: \[None\]"),
        ([one, empty, one], "graph number 1 has no nodes"),
        ([one, short], "an edge has node 2, but there are 2 nodes"),
        ([data.Data(one.x, edges, train_mask=torch.ones(2))], "graph number 0 has 2 rows in train"),
        ([data.Data(one.x, edges, test_mask=torch.tensor([1, 2, 0]))], "test_mask is 2; expected"),
        ([data.Data(one.x.half() + torch.inf, edges)], r"node 0 has \[inf\] in `feat`"),
    ):
        refuses(message, write_arrays, graphs, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def write_graph(folder: Path, labels: Any, **options: Any) -> Graphs:
    """Write a ring with features of nodes and edges, and return the task."""
    nodes = np.arange(30)
    graph = dgl.graph((nodes, (nodes + 1) % 30))
    graph.ndata["feat"] = dgl.backend.tensor(np.stack([nodes, nodes % 3], 1))
    graph.ndata["label"] = dgl.backend.tensor(labels)
    graph.edata["feat"] = dgl.backend.tensor(nodes / 7)
    return Graphs(write_arrays(graph, folder), **options)


@pytest.mark.parametrize("target", ["class", "labels", "values"])
def test_read_part_returns_the_nodes_of_a_process(target: Any, tmp_path: Path) -> None:
    known = np.arange(30) < 12  # so that a contiguous part has no label
    labels: Any = np.where(known, np.arange(30) % 3, -1)
    if target != "class":
        rows = np.stack([np.arange(30) % 2, np.arange(30) % 3 > 0], 1)
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
                is_local = np.isin(expected.edges[1], nodes)
                assert edges == {tuple(edge) for edge in expected.edges[:, is_local].T.tolist()}
                assert graph.edge_feats is not None and expected.edge_feats is not None
                np.testing.assert_array_equal(graph.edge_feats, expected.edge_feats[is_local])
        assert not (dist.get_rank() and graph.has_label.any())

    run_together(check, tmp_path)


def test_divide_refuses(tmp_path: Path) -> None:
    task = write_graph(tmp_path / "data", np.arange(30) % 3)
    parts = Graphs(task.divide(tmp_path / "parts", 2))
    refuses("parts must hold one whole graph to be cut", parts.divide, tmp_path / "again", 2)
    graph = dgl.graph(([0], [1]))
    graphs = Graphs(write_arrays([(graph, 0), (graph, 1)], tmp_path / "graphs"))
    refuses("graphs must hold one whole graph to be cut", graphs.divide, tmp_path / "again", 2)
    with pytest.raises(ValueError, match="parts must be at least 1 and at most 30 nodes, got 31"):
        task.divide(tmp_path / "again", 31)
    weighted = Graphs(tmp_path / "parts", class_weights="balanced")
    with pytest.raises(ValueError, match="class_weights must be '' for parts, got 'balanced'"):
        weighted.check_config(None)  # type: ignore[arg-type]
