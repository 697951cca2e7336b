from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.base import PARTS
from graphut.experiments.tasks.graph_readers import read_edge_attributes, read_graphs
from graphut.experiments.tasks.raw_graph import RawGraph, graph_files
from graphut.models.graph_inputs import EdgeAttributes

KINDS, NO_KINDS, CLASSES = Vocabulary(["a", "b"]), Vocabulary([]), Vocabulary(["0", "1", "yes"])


def triangle(directed: bool = False, **attributes: list[Any]) -> networkx.Graph:
    graph = networkx.cycle_graph(3, create_using=networkx.DiGraph if directed else None)
    for name, values in attributes.items():
        networkx.set_node_attributes(graph, dict(enumerate(values)), name)
    return graph


def write(graph: networkx.Graph, path: Path) -> Path:
    if path.suffix == ".graphml":
        networkx.write_graphml(graph, path)
    else:
        path.write_text(json.dumps(networkx.node_link_data(graph, edges="links")))
    return path


def graphml(graph: str) -> str:
    return (
        f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph>{graph}</graph></graphml>'
    )


def csv_folder(folder: Path, **files: str) -> Path:
    """A folder in the layout of DGL's CSVDataset: two graphs, of 2 and of 1 nodes."""
    texts = {
        "nodes": "graph_id,node_id,feat,label\n0,x,'1, 2',0\n0,y,'3, 4',1\n1,x,'5, 6',-1\n",
        "edges": "graph_id,src_id,dst_id\n0,x,y\n",
        "graphs": "graph_id,label\n0,yes\n1,yes\n",
        **files,
    }
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text.replace("'", '"'))
    (folder / "meta.yaml").write_text("dataset_name: mine\n")
    return folder


def pairs(graph: RawGraph) -> set[tuple[int, ...]]:
    found = list(map(tuple, graph.edges.T.tolist()))
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("name", ["graph.graphml", "graph.json"])
@pytest.mark.parametrize("directed", [True, False])
def test_read_graphs_by_networkx(name: str, directed: bool, tmp_path: Path) -> None:
    given = triangle(directed, feat=["a", "b", "a"], label=[0, 1, -1])
    [graph] = read_graphs(write(given, tmp_path / name))
    one_way = {(0, 1), (1, 2), (2, 0)}
    both = one_way | {(target, source) for source, target in one_way}
    assert pairs(graph) == (one_way if directed else both) | {(0, 0), (1, 1), (2, 2)}
    found = graph.labelled(KINDS, CLASSES)
    assert found.nodes.tolist() == [0, 1, 0] and found.labels.tolist() == [0, 1, -1]


def test_read_graphs_with_one_label_for_each_and_no_features(tmp_path: Path) -> None:
    for index, label in enumerate(["yes", 1.0]):
        graph = triangle()
        graph.graph["label"] = label
        write(graph, tmp_path / f"{index}.json")
    one, other = read_graphs(tmp_path)
    assert (one.label, other.label, one.labels) == (["yes"], ["1"], None)
    found = one.labelled(Vocabulary(["node"]), CLASSES)
    assert found.labels.tolist() == [2] and found.nodes.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "values",
    [[1, 2, 3], [[1, 0.5], [2, 1], [3, 1]], ["1, .5", "2 1", "3,1"], ["[1, 0.5]", "(2; 1)", "3;1"]],
)
def test_read_graphs_reads_features(values: list[Any], tmp_path: Path) -> None:
    given = triangle(feat=values, label=["yes", "yes", "0"])
    [graph] = read_graphs(write(given, tmp_path / "graph.json"))
    assert graph.kinds is None
    nodes = graph.labelled(NO_KINDS, CLASSES, graph.num_feats).nodes
    assert nodes.dtype == np.float32 and nodes[:, 0].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match=r"graph\.json: its nodes have features in `feat`, but"):
        graph.labelled(KINDS, CLASSES)


def test_read_graphs_joins_the_words_of_names(tmp_path: Path) -> None:
    given = triangle(feat=["a b", "c", ""], label=["Mr. Hi", "no", "no"])
    with pytest.raises(ValueError, match="node 2 has no `feat`, but other nodes have"):
        read_graphs(write(given, tmp_path / "graph.json"))
    given.nodes[2]["feat"] = "c"
    [graph] = read_graphs(write(given, tmp_path / "graph.json"))
    assert (graph.kinds, graph.labels) == (["a_b", "c", "c"], ["Mr._Hi", "no", "no"])


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["1", "2", "O, l"], "'O, l'"),
        ([[0.1], [0.2, "x"], [0.3]], r"\[0.2, 'x'\]"),
        ([[0.1], "C", [0.3]], "'C'"),
        ([1, {"a": 1}, 3], r"\{'a': 1\}"),
        ([["C"], ["O"], ["N"]], r"\['C'\]"),
    ],
)
def test_read_graphs_refuses_numbers_beside_what_is_none(
    values: list[Any], found: str, tmp_path: Path
) -> None:
    path = write(triangle(feat=values, label=[0, 1, 1]), tmp_path / "graph.json")
    with pytest.raises(
        ValueError, match=rf"graph\.json: node . has {found} in `feat`, which is not"
    ):
        read_graphs(path)


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (["1_0", "1_1", "1_0"], ["1_0", "1_1", "1_0"]),
        ([""] * 3, ["node"] * 3),
        ([[]] * 3, ["node"] * 3),
    ],
)
def test_read_graphs_reads_kinds(values: list[Any], kinds: list[str], tmp_path: Path) -> None:
    [graph] = read_graphs(write(triangle(feat=values, label=[0, 1, 1]), tmp_path / "graph.json"))
    assert graph.kinds == kinds


def test_read_graphs_with_masks_in_one_file_alone(tmp_path: Path) -> None:
    write(triangle(label=[0, 1, 0], test_mask=[1, 1, 1]), tmp_path / "a.json")
    write(triangle(label=[0, 1, 0]), tmp_path / "b.json")
    with pytest.raises(ValueError, match=r"b\.json has labels and no mask, but other graphs have"):
        read_graphs(tmp_path)


def test_read_graphs_takes_spaces_in_csv_files(tmp_path: Path) -> None:
    files = {
        "nodes": "node_id , feat, label\nx, '2.5; 1', 1\ny , '3, 2', 0\n",
        "edges": "src_id, dst_id\nx, y\n",
    }
    [graph] = read_graphs(csv_folder(tmp_path, **files, graphs="graph_id,label\n0,yes\n"))
    assert pairs(graph) == {(0, 1), (0, 0), (1, 1)} and graph.label == ["yes"]
    assert (graph.features, graph.labels) == ([[2.5, 1.0], [3.0, 2.0]], ["1", "0"])


def test_read_graphs_ends_rows_of_csv_files_at_line_breaks_alone(tmp_path: Path) -> None:
    nodes = "node_id,feat,label,,\nx,a\u2028b,0,,\ny,c\x0bd,1,,\n"
    other = {"edges": "src_id,dst_id\nx,y\n", "graphs": "graph_id,label\n0,yes\n"}
    [graph] = read_graphs(csv_folder(tmp_path, nodes=nodes, **other))
    assert graph.kinds == ["a_b", "c_d"] and graph.labels == ["0", "1"]


def test_read_graphs_takes_the_pairs_of_old_networkx(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text('{"nodes": [{"id": 1}], "links": [], "graph": [["label", "yes"]]}')
    assert read_graphs(path)[0].label == ["yes"]


def test_read_graphs_of_csv_files(tmp_path: Path) -> None:
    one, other = read_graphs(csv_folder(tmp_path))
    assert pairs(one) == {(0, 1), (0, 0), (1, 1)} and pairs(other) == {(0, 0)}
    assert one.labelled(NO_KINDS, CLASSES, 2).nodes.tolist() == [[1, 2], [3, 4]]
    assert one.labelled(NO_KINDS, CLASSES, 2).labels.tolist() == [0, 1]


def test_read_graphs_takes_classes_and_masks_as_pandas_and_spreadsheets_write_them(
    tmp_path: Path,
) -> None:
    nodes = "node_id,label,train_mask,val_mask\nx,1.0,TRUE,0.0\ny,-1.0,FALSE,1.0\n"
    files = {"nodes": nodes, "edges": "src_id,dst_id\nx,y\n"}
    [graph] = read_graphs(csv_folder(tmp_path, **files, graphs="graph_id,label\n0,\n"))
    assert graph.labels == ["1", None]
    assert {part: mask.tolist() for part, mask in graph.masks.items()} == {
        "train": [True, False],
        "validation": [False, True],
    }
    write(triangle(label=[1.0, float("nan"), 0]), tmp_path / "g.graphml")
    assert read_graphs(tmp_path / "g.graphml")[0].labels == ["1", None, "0"]
    write(triangle(label=[1, 0, 0], test_mask=["yes", "no", "no"]), tmp_path / "h.json")
    with pytest.raises(ValueError, match=r"h\.json: test_mask is 'yes': a mask is true or false"):
        read_graphs(tmp_path / "h.json")


def test_read_graphs_reads_loops_masks_and_unit_weights(tmp_path: Path) -> None:
    given = triangle(label=[0, 1, 0], train_mask=[True, False, False], test_mask=[0, 1, 1])
    given.add_edge(1, 1)
    networkx.set_edge_attributes(given, 1.0, "weight")  # the same as no weight
    for name in ("graph.graphml", "graph.json"):
        [graph] = read_graphs(write(given, tmp_path / name))
        assert len(pairs(graph)) == 9
        masks = {part: mask.tolist() for part, mask in graph.masks.items()}
        assert masks == {"train": [True, False, False], "test": [False, True, True]}


def test_graph_files_of_a_folder_are_in_order(tmp_path: Path) -> None:
    names = ["b.json", "a.graphml"]
    for name in names:
        write(triangle(label=[0, 0, 1]), tmp_path / name)
    (tmp_path / "notes.txt").write_text("hello")
    assert [path.name for path in graph_files(tmp_path)] == sorted(names)
    assert len(read_graphs(tmp_path)) == 2


def node_link(*nodes: dict[str, Any], links: Sequence[tuple[Any, Any]] = ()) -> str:
    edges = [{"source": source, "target": target} for source, target in links]
    return json.dumps({"nodes": nodes, "links": edges})


BAD_FILES = {
    "is not a JSON file": "{",
    r"by networkx.node_link_data: it has \[1\]; expected nodes, and links or edges": "[1]",
    r"it has \['nodes', 'arcs'\]; expected nodes, and links": '{"nodes": [], "arcs": []}',
    "holds a graph without nodes": node_link(),
    "has no `label`, neither at nodes nor": node_link({"id": 1}),
    "node 2 has no `feat`, but other nodes": node_link({"id": 1, "feat": 2, "label": 1}, {"id": 2}),
    "node_link_data: an edge refers to 1, which is not among the nodes": node_link(
        {"id": "1", "label": 1}, links=[(1, "1")]
    ),
    "an edge refers to null, which is not": node_link({"id": 1}, links=[(1, None)]),
    "the node 3 occurs 2 times": node_link({"id": 3, "label": 1}, {"id": 3, "label": 0}),
    "node 3 is in train_mask and in test_mask": node_link(
        {"id": 3, "label": 1, "train_mask": 1, "test_mask": 1}
    ),
    r"a label must be one name or number, or .*; got \[0, 1\]": node_link(
        {"id": 1, "label": [0, 1]}
    ),
    "node_link_data: a node has no id": node_link({"label": 1}),
    "is not a GraphML file": "<graphml>",
    'is not a GraphML file: an edge refers to "y", which is not among the nodes': graphml(
        '<node id="x"/><edge source="x" target="y"/>'
    ),
    'the node "x" occurs 2 times': graphml('<node id="x"/><node id="x"/>'),
    "it has 2 graphs: put each into a separate file": graphml("</graph><graph>"),
}


@pytest.mark.parametrize("message", BAD_FILES)
def test_read_graphs_names_a_bad_file(message: str, tmp_path: Path) -> None:
    text = BAD_FILES[message]
    path = tmp_path / ("a.graphml" if text.startswith("<") else "a.json")
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"{path.name}:? .*{message}"):
        read_graphs(path)


@pytest.mark.parametrize("label", [0.5, "-1.25e1", "0.5, 2"])
def test_read_graphs_refuses_real_numbers_as_classes(label: Any, tmp_path: Path) -> None:
    message = rf"graph\.graphml: a label is {str(label)[:3]}.*: pass --target values"
    of_nodes = write(triangle(label=[label, label, label]), tmp_path / "graph.graphml")
    with pytest.raises(ValueError, match=message):
        read_graphs(of_nodes)
    whole = triangle()
    whole.graph["label"] = label
    with pytest.raises(ValueError, match=message):
        read_graphs(write(whole, tmp_path / "graph.graphml"))


@pytest.mark.parametrize("name", ["graph.graphml", "graph.json"])
def test_read_graphs_reads_values_weights_and_types(name: str, tmp_path: Path) -> None:
    given = triangle(label=[-1.5, "", "2"], colour=["red", "blue", "red"])
    networkx.set_node_attributes(given, {0: "-1.5", 1: "", 2: "2"}, "label")
    networkx.set_edge_attributes(given, {(0, 1): 2.0, (1, 2): 0.5, (0, 2): 1.0}, "weight")
    networkx.set_edge_attributes(given, {(0, 1): "a", (1, 2): "b", (0, 2): "a"}, "type")
    networkx.set_edge_attributes(given, {(0, 1): "1,0", (1, 2): "2,0", (0, 2): "3,5"}, "feat")
    networkx.set_edge_attributes(given, 1, "year")
    [graph] = read_graphs(write(given, tmp_path / name), "values")
    found = graph.labelled(Vocabulary(["node"]), Vocabulary("0"), 0, ["a", "b"], 4)
    np.testing.assert_array_equal(found.labels, np.array([[-1.5], [np.nan], [2]], np.float32))
    assert found.has_label.tolist() == [True, False, True]
    assert found.edge_weights is not None and found.edge_feats is not None
    of_edge = {
        tuple(ends): (float(weight), feats.tolist())
        for ends, weight, feats in zip(
            found.edges.T.tolist(), found.edge_weights, found.edge_feats, strict=True
        )
    }
    assert len(of_edge) == 9
    assert of_edge[0, 1] == of_edge[1, 0] == (2, [1, 0, 1, 0])
    assert of_edge[1, 2] == (0.5, [2, 0, 0, 1]) and of_edge[2, 0] == (1, [3, 5, 1, 0])
    assert of_edge[1, 1] == (1, [0, 0, 0, 0])  # a self-loop that was added
    assert graph.unused == {"colour", "year of edges"}


def test_read_graphs_takes_masks_of_graphs(tmp_path: Path) -> None:
    for index, mask in enumerate(["train_mask", "val_mask", "test_mask"]):
        graph = triangle()
        graph.graph.update({"label": [1, 0, 1], mask: True})
        write(graph, tmp_path / f"{index}.json")
    graphs = read_graphs(tmp_path, "labels")
    asked = [[bool(graph.label_mask(part)[0]) for graph in graphs] for part in PARTS]
    assert asked == np.eye(3, dtype=bool).tolist()
    assert graphs[0].labelled(Vocabulary(["node"]), Vocabulary("012")).labels.tolist() == [
        [1, 0, 1]
    ]
    with pytest.raises(ValueError, match=r"0\.json: a label has 3 numbers; expected 2"):
        graphs[0].labelled(Vocabulary(["node"]), Vocabulary("01"))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"edges": "src_id,dst_id,graph_id\nx,z,0\n"},
            r"graph '0': an edge refers to \"z\", which is not among the nodes",
        ),
        ({"edges": "a,b\n1,2\n"}, r"edges\.csv needs .*; its first line is 'a,b'"),
        ({"edges": "src_id,dst_id\nx\n"}, r"edges\.csv has a wrong number of columns in row 1"),
        ({"nodes": "node_id,label\n"}, "holds no graph"),
        ({"nodes": "node_id,feat, feat\nx,1,2\n"}, r"nodes\.csv has 2 columns named 'feat': "),
        (
            {"more": "node_id,label\nx,1\n"},
            "nodes.csv and .*more.csv both hold nodes, by their columns",
        ),
        (
            {"edges": "source,target,graph_id\nx,y,0\n"},
            r"edges\.csv both hold graphs.*: name the columns of edges src_id and dst_id and those",
        ),
        (
            {"edges": "src_id,dst_id,graph_id\nx,x,0\n", "nodes": "node_id,label\nx,1\n"},
            "only one of the files of nodes and edges has a column graph_id",
        ),
        (
            {"edges": "src_id,dst_id,graph_id\nx,x,9\n", "nodes": "node_id,graph_id\nx,0\n"},
            r"edges\.csv refers to graph '9', which has no nodes",
        ),
        (
            {"graphs": "graph_id,label\n0,1\n1,0\n0,0\n"},
            r"graph '0': graphs\.csv lists the graph '0' twice",
        ),
        (
            {"nodes": "node_id,graph_id\nx,0\nx,0\ny,1\n"},
            r"graph '0': the node \"x\" occurs 2 times",
        ),
    ],
)
def test_read_graphs_names_a_bad_csv_file(
    files: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        read_graphs(csv_folder(tmp_path, **files))


def test_read_graphs_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no .*nowhere: name a \.graphml"):
        read_graphs(tmp_path / "nowhere")
    (tmp_path / "a.bin").write_text("x")
    for path in (tmp_path, tmp_path / "a.bin"):
        with pytest.raises(ValueError, match=r"holds no graphs that can be read: name a \.graphml"):
            read_graphs(path)
    (tmp_path / "edges.csv").write_text("src_id,dst_id\n")
    with pytest.raises(ValueError, match=r"lacks a \.csv file with node_id, or one with src_id"):
        read_graphs(tmp_path)


def test_read_graphs_reads_labels_of_nodes_where_there_are_some(tmp_path: Path) -> None:
    write(triangle(label=[0, 1, 1]), tmp_path / "a.json")
    graph = triangle()
    graph.graph["label"] = 1
    write(graph, tmp_path / "b.json")
    found = [each.labelled(Vocabulary(["node"]), CLASSES) for each in read_graphs(tmp_path)]
    assert [graph.labels.tolist() for graph in found] == [[0, 1, 1], [-1, -1, -1]]


def test_labelled_quotes_what_the_others_do_not_have(tmp_path: Path) -> None:
    given = triangle(feat=["a", "c", "a"], label=["0", "no", "0"])
    [graph] = read_graphs(write(given, tmp_path / "graph.json"))
    with pytest.raises(
        ValueError, match=r"graph\.json: the kind of node 'c' is unknown; known are a, b"
    ):
        graph.labelled(KINDS, CLASSES)
    with pytest.raises(ValueError, match=r"graph\.json: the label 'no' is unknown"):
        graph.labelled(Vocabulary("abc"), CLASSES)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (["1", "1,2", "1"], "node 1 has 2 numbers in `feat`; expected 1"),
        (["1", "2", "nan"], r"node 2 has \[nan\] in `feat`; expected finite numbers"),
        ([[1.0], [float("inf")], [2.0]], r"node 1 has \[inf\] in `feat`"),
    ],
)
def test_labelled_names_the_node_whose_features_do_not_fit(
    features: list[Any], message: str, tmp_path: Path
) -> None:
    [graph] = read_graphs(write(triangle(feat=features, label=[0, 0, 0]), tmp_path / "graph.json"))
    with pytest.raises(ValueError, match=r"graph\.json: " + message):
        graph.labelled(NO_KINDS, CLASSES, graph.num_feats)


def edge_attributes(edges: list[dict[str, Any]], loops: int) -> EdgeAttributes:
    return read_edge_attributes([("x", "y", edge) for edge in edges], loops)


def test_edge_attributes_of_loops_are_neutral() -> None:
    found = edge_attributes([{"weight": 2, "feat": [3]}, {"weight": "1", "feat": 4}], 2)
    assert found.weights is not None and found.weights.tolist() == [2, 1, 1, 1]
    edges = np.array([[0, 1, 0, 1], [1, 0, 0, 1]])
    rows = found.encoded([], 1, edges)
    assert rows is not None and rows.tolist() == [[3], [4], [0], [0]]
    assert edge_attributes([{"weight": 1.0}, {"weight": 1}], 1).weights is None
    nothing = edge_attributes([{}, {"label": 3}], 1)
    assert (nothing.weights, nothing.feats, nothing.types) == (None, None, None)
    assert nothing.encoded([], 0, edges) is None


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([{"weight": 1}, {}], "the edge from 'x' to 'y' has no `weight`: give all edges as many"),
        ([{"feat": "1,2"}, {"feat": "1"}], "has '1' in `feat`: give all edges as many numbers"),
        ([{"edge_attr": "red"}], "has 'red' in `edge_attr`"),
        ([{"weight": 0}], "an edge has the weight 0.0, but weights are positive: leave out"),
        ([{"weight": [2, 3]}], r"has the weight \[2\.0, 3\.0\], but a weight is one number: give"),
        ([{"weight": "2 3"}], r"has the weight \[2\.0, 3\.0\], but a weight is one number: give"),
        ([{"type": [2, 3]}], r"the type of an edge must be one name or number; got \[2, 3\]"),
        ([{"weight": "nan"}], "an edge has the weight nan"),
        ([{"feat": "inf"}], "an edge has .inf. in `feat`; expected finite numbers"),
    ],
)
def test_edge_attributes_refuse(edges: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        edge_attributes(edges, 0)
