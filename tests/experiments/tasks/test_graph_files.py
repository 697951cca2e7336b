import json
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import torch

from graphut._dgl import dgl
from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.base import PARTS
from graphut.experiments.tasks.graph_files import read_graphs, write_arrays
from graphut.experiments.tasks.own_graphs import Graphs
from graphut.models.config import UniversalGraphTransformerConfig
from graphut.models.graph_inputs import as_input
from tests.helpers import refuses


def write(graph: networkx.Graph, path: Path) -> Path:
    if path.suffix == ".graphml":
        networkx.write_graphml(graph, path)
    else:
        path.write_text(json.dumps(networkx.node_link_data(graph, edges="links")))
    return path


def draw_graph(seed: int, kind: type[networkx.Graph]) -> networkx.Graph:
    """Draw a graph with all attributes; in a multigraph, some edges are parallel."""
    random, graph = np.random.default_rng(seed), kind()
    for node, part in enumerate(random.integers(0, 3, int(random.integers(2, 9)))):
        feat = ", ".join(map(str, random.normal(size=2).round(3)))
        label = str(random.choice(["a", "b c", "", "7"])) if node else "a"
        masks = {"train_mask": bool(part == 0), "test_mask": bool(part == 1)}
        graph.add_node(node, feat=feat, label=label, **masks)
    for k, (source, end) in enumerate(random.integers(0, len(graph), (12, 2)).tolist()):
        graph.add_edge(source, end, weight=1e8 + k / 8, feat=f"{k / 3!r}", type=f"t{k % 3}")
    return graph


@pytest.mark.parametrize("suffix", [".graphml", ".json"])
@pytest.mark.parametrize("kind", ["MultiDiGraph", "MultiGraph", "DiGraph", "Graph"])
def test_read_graphs_reads_all_that_networkx_wrote(kind: str, suffix: str, tmp_path: Path) -> None:
    for seed in range(5):
        drawn = draw_graph(seed, getattr(networkx, kind))
        [graph] = read_graphs(write(drawn, tmp_path / f"{seed}{suffix}"))
        rows, edges = drawn.nodes.values(), [*drawn.to_directed().edges(data=True)]
        assert [*map(int, graph.graph.ids)] == [*drawn] and graph.by_node
        assert graph.labels == [row["label"].replace(" ", "_") or None for row in rows]
        for part in ("train", "test"):
            assert graph.masks[part].tolist() == [row[f"{part}_mask"] for row in rows]
        feats = np.array([row["feat"].split(", ") for row in rows], float)
        np.testing.assert_array_equal(graph.graph.nodes, feats)
        loops = [[node, node] for node in drawn if not drawn.has_edge(node, node)]
        _, found, _, weights, numbers = graph.graph
        assert found[:, len(edges) :].T.tolist() == loops
        assert weights is not None and numbers is not None
        columns = *found.tolist(), weights.tolist(), numbers[:, 0].tolist()
        wanted = [(*ends, row["weight"], float(row["feat"])) for *ends, row in edges]
        assert sorted([*zip(*columns, strict=True)][: len(edges)]) == sorted(wanted)


def test_read_graphs_fills_in_the_default_values_of_graphml(tmp_path: Path) -> None:
    graph = networkx.path_graph(3)
    graph.graph.update(node_default={"label": "b"}, edge_default={"weight": 2.5})
    graph.nodes[1]["label"] = "a"
    graph.edges[0, 1]["weight"] = 1.5
    [graph] = read_graphs(write(graph, tmp_path / "a.graphml"))
    assert graph.labels == ["b", "a", "b"] and graph.graph.weights is not None
    assert sorted(graph.graph.weights.tolist()) == [1, 1, 1, 1.5, 1.5, 2.5, 2.5]


def node_link(*nodes: Any, links: Any = (), **others: Any) -> str:
    edges = [{"source": source, "target": target} for source, target in links]
    return json.dumps({"nodes": nodes, "links": edges, **others})


ONE, TWO = {"id": 1, "label": 1}, {"id": 2, "label": 2}
BAD_FILES = {
    "is not as networkx.write_graphml or node_link_data writes it: Expecting property name": "{",
    "node_link_data writes it: KeyError.'edges'": '{"nodes": [], "adjacency": []}',
    "holds a graph without nodes": node_link(graph={"label": 1}),
    "has no `label`, neither at nodes nor of the graph: name .*; ignored: club, x0$": node_link(
        {"id": 1, "x0": 2, "club": "a", "feat": 3}
    ),
    "and the ends of edges be ids": node_link(ONE, TWO, links=[("1", 2)]),
    "the ids of nodes must differ": node_link(ONE, ONE),
    "is not as networkx.write_graphml": "<graphml>",
    "node 2 has no `feat`: give all": node_link({**ONE, "feat": 2}, TWO),
    "node number 0 is in train_mask and in test_mask": node_link(
        {**ONE, "train_mask": 1, "test_mask": 1}
    ),
}


@pytest.mark.parametrize("message", BAD_FILES)
def test_read_graphs_names_a_bad_file(message: str, tmp_path: Path) -> None:
    text = BAD_FILES[message]
    path = tmp_path / ("a.graphml" if text.startswith("<") else "a.json")
    path.write_text(text)
    refuses(rf"{path.name}:? .*{message}", read_graphs, path)


def test_read_graphs_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no .*nowhere: name a \.graphml"):
        read_graphs(tmp_path / "nowhere")
    (tmp_path / "nodes.csv").write_text("node_id\n")
    for path in (tmp_path, tmp_path / "nodes.csv"):
        refuses(r"holds no graphs that can be read: name a \.graphml", read_graphs, path)


def test_read_graphs_reads_labels_of_graphs_if_no_node_has_one(tmp_path: Path) -> None:
    graph = networkx.cycle_graph(3)
    graph.graph.update(label="yes", train_mask=True)
    write(graph, tmp_path / "a.json")
    networkx.set_node_attributes(graph, {0: "a b", 1: "c", 2: "a b"}, "feat")
    graph.graph.update(label=1.0, train_mask=False)
    write(graph, tmp_path / "b.graphml")
    one, other = read_graphs(tmp_path)
    assert (one.labels, other.labels, one.by_node) == (["yes"], ["1"], False)
    assert (one.graph.nodes, other.graph.nodes) == (["node"] * 3, ["a_b", "c", "a_b"])
    assert [each.label_mask("train").tolist() for each in (one, other)] == [[True], [False]]
    labelled = one.labelled(["node"], Vocabulary(["1", "yes"]))
    assert labelled.labels.tolist() == [1] and labelled.nodes.tolist() == [0, 0, 0]
    words = r"b\.graphml: the kind of node 'a_b' is unknown; known are node"
    refuses(words, other.labelled, ["node"], Vocabulary(["1", "yes"]))
    write(networkx.cycle_graph(3), tmp_path / "c.json")
    [*_, last] = read_graphs(tmp_path)
    assert last.labels == [None] and not last.has_label.any()
    networkx.set_node_attributes(graph, {0: 0}, "label")
    write(graph, tmp_path / "b.graphml")
    refuses("it has graph_train_mask, but nodes have labels", read_graphs, tmp_path)
    assert len(read_graphs(tmp_path, None)) == 3  # labels and masks are not needed
    del graph.graph["train_mask"]
    for name in ("b.graphml", "c.json"):
        write(graph, tmp_path / name)
    (tmp_path / "a.json").unlink()
    assert [each.labels for each in read_graphs(tmp_path)] == [["0", None, None]] * 2


ARRAYS: dict[str, Any] = {
    "edges": np.array([[0, 3, 1, 4], [1, 4, 2, 3]], np.uint64),
    "graphs": np.array([0, 0, 0, 1, 1], np.uint8),
    "features": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0], [8.0, 9.0]],
    "labels": ["a", "b", "", "b", "a"],
    "train_mask": [1, 0, 0, 1, 0],
    "val_mask": [0, 1, 0, 0, 0],
    "test_mask": [False, False, False, False, True],
    "edge_weights": [1.0, 2.0, 3.0, 4.0],
    "edge_features": [[1, 0], [0, 1], [1, 0], [1, 0]],
    "extra": [1],
}


def save(folder: Path, **changed: Any) -> Path:
    folder.mkdir(exist_ok=True)
    for name, values in {**ARRAYS, **changed}.items():
        if values is not None:
            np.save(folder / f"{name}.npy", np.array(values))
    return folder


def test_read_graphs_of_arrays(tmp_path: Path) -> None:
    task = Graphs(save(tmp_path / "data"))
    assert task.answers.symbols == ("a", "b") and task.edge_feats == 2
    labels = [[graph.labels.tolist() for graph in task.load(part)] for part in PARTS]
    assert labels == [[[0, -1, -1], [1, -1]], [[-1, 1, -1]], [[-1, 0]]]
    one, other = task.load("train")
    assert one.edges.tolist() == [[0, 1, 0, 1, 2], [1, 2, 0, 1, 2]]
    assert other.edges.tolist() == [[0, 1, 0, 1], [1, 0, 0, 1]]
    assert other.nodes.tolist() == [[6, 7], [8, 9]]
    assert one.edge_weights is not None and one.edge_weights.tolist() == [1, 3, 1, 1, 1]
    assert other.edge_feats is not None
    assert other.edge_feats.tolist() == [[0, 1], [1, 0], [0, 0], [0, 0]]
    assert [[*file.graph.ids] for file in read_graphs(tmp_path / "data")] == [[0, 1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"edges": None}, r"it needs edges\.npy, \(2, E\) integers; it is missing"),
        ({"edges": [[0.0, 1.0]]}, r"it needs edges\.npy, .*; got \(1, 2\) float64"),
        ({"edges": [[0], [9]]}, "node 9, but there are 5 nodes in graphs.npy: .* or add rows"),
        ({"labels": None}, r"no `label` in labels.npy or graph_labels.npy, .*ignored: extra\.npy"),
        ({"edges": [[0], [4]]}, "edge number 0 joins two graphs"),
        ({"graphs": [0, 1, 0, 1, 1]}, "graphs.npy must hold the number of each node's graph"),
        ({"graphs": [1, 1, 1, 2, 2]}, "graphs.npy must .* ordered integers from 0"),
        ({"graph_train_mask": [1, 0]}, "it has graph_train_mask, but nodes have labels"),
        (
            {"labels": [1, 2, 3]},
            "labels.npy has 3 rows; expected one for each node in graphs",
        ),
        ({"labels": [1j] * 5}, r"labels\.npy is not a \.npy file of numbers or text: its values"),
        ({"labels": [{}]}, r"labels\.npy is not a \.npy file of numbers or text: .*pickle"),
    ],
)
def test_read_graphs_refuses_arrays(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    refuses(rf"data.*{message}", getattr, Graphs(save(tmp_path / "data", **changed)), "test")


def test_write_arrays_of_dgl_reads_back(tmp_path: Path) -> None:
    graph = dgl.graph(([0, 1, 2], [1, 2, 0]))
    graph.ndata["feat"] = torch.rand(3, 2)
    graph.ndata["label"] = torch.tensor([3, 3, 12])
    graph.edata["weight"] = torch.tensor([1.0, 2.0, 5.0])
    expected = as_input(graph, UniversalGraphTransformerConfig(num_feats=2, classes=2))
    for each in read_graphs(write_arrays([graph, graph], tmp_path / "data")):
        assert each.labels == ["3", "3", "12"]
        assert each.graph.edges.tolist() == expected.edges.tolist()
        np.testing.assert_array_equal(each.graph.weights, expected.edge_weights)
        np.testing.assert_array_equal(each.graph.nodes, expected.nodes)
    with pytest.raises(FileExistsError, match="data is not empty"):
        write_arrays(graph, tmp_path / "data")
    with pytest.raises(ValueError, match=r"features\.npy has 3 rows; expected one for each node"):
        write_arrays([graph, dgl.rand_graph(2, 2)], tmp_path / "other")


@pytest.mark.parametrize("label", [4, torch.tensor([4, 5]), torch.tensor([[0.5, 1.0]])])
def test_write_arrays_of_pyg_with_labels_of_graphs(label: Any, tmp_path: Path) -> None:
    data = pytest.importorskip("torch_geometric.data")
    edges = torch.zeros(2, 0, dtype=torch.int64)
    graphs = [data.Data(torch.rand(n, 3), edge_index=edges, y=label) for n in (1, 2, 3)]
    for each in read_graphs(write_arrays(graphs, tmp_path / "data"), "values"):
        assert not each.by_node and isinstance(each.labels, np.ndarray)
        assert each.labels.tolist() == torch.as_tensor(label).view(1, -1).tolist()


def test_write_arrays_of_a_dataset_and_of_pairs(tmp_path: Path) -> None:
    datasets = pytest.importorskip("torch_geometric.datasets")
    [karate] = read_graphs(write_arrays(datasets.KarateClub(), tmp_path / "karate"))
    assert karate.by_node and len(karate.graph.ids) == len(karate.labels) == 34
    pairs = [(dgl.rand_graph(1, 1), torch.tensor(k)) for k in range(3)]
    read = read_graphs(write_arrays(pairs, tmp_path / "graphs"))
    assert [(each.by_node, each.labels) for each in read] == [(False, [str(k)]) for k in range(3)]


def test_write_arrays_refuses_and_writes_nothing(tmp_path: Path) -> None:
    data = pytest.importorskip("torch_geometric.data")
    edges = torch.tensor([[0], [2]])
    one = data.Data(torch.rand(3, 3), edges)
    wide, narrow = (data.Data(one.x, edges, y=y) for y in (torch.rand(1, 2), 1))
    empty, short = (data.Data(torch.rand(n, 3), edges[:, : n // 2]) for n in (0, 2))
    for graphs, message in (
        (data.HeteroData(), "expected a homogeneous DGL graph, a Data of PyG .*got HeteroData"),
        ([wide, narrow], "graph_labels of the graphs do not fit together: .* dimension 1"),
        ([one, empty, one], "graph number 1 has no nodes"),
        ([one, short], "an edge has node 2, but there are 2 nodes"),
        ([data.Data(one.x, edges, train_mask=torch.ones(2))], r"train_mask\.npy has 2 rows; exp"),
    ):
        refuses(message, write_arrays, graphs, tmp_path / "data")
    assert not (tmp_path / "data").exists()
