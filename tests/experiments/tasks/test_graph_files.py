from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.graph_files import GraphFile, graph_files, read_graphs

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


def pairs(graph: GraphFile) -> set[tuple[int, ...]]:
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
    assert (one.label, other.label, one.labels) == ("yes", "1", None)
    found = one.labelled(Vocabulary(["node"]), CLASSES)
    assert found.labels.tolist() == [2] and found.nodes.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "values",
    [[1, 2, 3], [[1, 0.5], [2, 1], [3, 1]], ["1, .5", "2 1", "3,1"], ["[1, 0.5]", "(2; 1)", "3;1"]],
)
def test_read_graphs_with_features(values: list[Any], tmp_path: Path) -> None:
    given = triangle(feat=values, label=["yes", "yes", "0"])
    [graph] = read_graphs(write(given, tmp_path / "graph.json"))
    assert not graph.has_kinds
    nodes = graph.labelled(NO_KINDS, CLASSES, graph.num_feats).nodes
    assert nodes.dtype == np.float32 and nodes[:, 0].tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match=r"graph\.json: its nodes have features in `feat`, and"):
        graph.labelled(KINDS, CLASSES)


def test_read_graphs_joins_the_words_of_names(tmp_path: Path) -> None:
    given = triangle(feat=["a b", "c", ""], label=["Mr. Hi", "no", "no"])
    with pytest.raises(ValueError, match="node number 2 has no `feat`, but others have"):
        read_graphs(write(given, tmp_path / "graph.json"))
    given.nodes[2]["feat"] = "c"
    [graph] = read_graphs(write(given, tmp_path / "graph.json"))
    assert (graph.features, graph.labels) == (["a_b", "c", "c"], ["Mr._Hi", "no", "no"])


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
        ValueError, match=rf"graph\.json: node number . has {found} in `feat`, which"
    ):
        read_graphs(path)


def test_read_graphs_takes_numbers_with_an_underscore_for_names(tmp_path: Path) -> None:
    given = triangle(feat=["1_0", "1_1", "1_0"], label=[0, 1, 1])
    [graph] = read_graphs(write(given, tmp_path / "graph.json"))
    assert graph.features == ["1_0", "1_1", "1_0"]


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
    [graph] = read_graphs(csv_folder(tmp_path, **files, graphs="graph_id\n0\n"))
    assert pairs(graph) == {(0, 1), (0, 0), (1, 1)}
    assert (graph.features, graph.labels) == ([[2.5, 1.0], [3.0, 2.0]], ["1", "0"])


def test_read_graphs_takes_the_pairs_of_old_networkx(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text('{"nodes": [{"id": 1}], "links": [], "graph": [["label", "yes"]]}')
    assert read_graphs(path)[0].label == "yes"


def test_read_graphs_takes_empty_features_as_none(tmp_path: Path) -> None:
    for empty in ("", []):
        given = triangle(feat=[empty] * 3, label=[0, 1, 1])
        [graph] = read_graphs(write(given, tmp_path / "graph.json"))
        assert graph.features is None


def test_read_graphs_of_csv_files(tmp_path: Path) -> None:
    one, other = read_graphs(csv_folder(tmp_path))
    assert pairs(one) == {(0, 1), (0, 0), (1, 1)} and pairs(other) == {(0, 0)}
    assert one.labelled(NO_KINDS, CLASSES, 2).nodes.tolist() == [[1, 2], [3, 4]]
    assert one.labelled(NO_KINDS, CLASSES, 2).labels.tolist() == [0, 1]


def test_read_graphs_of_csv_files_of_one_graph(tmp_path: Path) -> None:
    files = {"nodes": "node_id,label\nx,1\ny,0\n", "edges": "src_id,dst_id\nx,y\n"}
    [graph] = read_graphs(csv_folder(tmp_path, **files, graphs="graph_id,label\n0,yes\n"))
    assert pairs(graph) == {(0, 1), (0, 0), (1, 1)} and graph.label == "yes"


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


def test_read_graphs_keeps_loops_and_masks(tmp_path: Path) -> None:
    given = triangle(label=[0, 1, 0], train_mask=[True, False, False], test_mask=[0, 1, 1])
    given.add_edge(1, 1)
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


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "is not a JSON file"),
        ("a.json", "[1]", "is not a graph by networkx.node_link_data"),
        ("a.json", '{"nodes": [{"id": 1}], "links": [{"source": 1}]}', "is not a graph by"),
        ("a.json", '{"nodes": [], "links": []}', "holds a graph without nodes"),
        (
            "a.json",
            '{"nodes": [{"id": 1}], "links": []}',
            "has no `label`, neither at nodes nor",
        ),
        (
            "a.json",
            '{"nodes": [{"id": 1, "feat": 2, "label": 1}, {"id": 2}], "links": []}',
            "node number 1 has no `feat`, but others have",
        ),
        (
            "a.json",
            '{"nodes": [{"id": "1", "label": 1}], "links": [{"source": 1, "target": "1"}]}',
            "an edge names 1, which is not among the nodes",
        ),
        (
            "a.json",
            '{"nodes": [{"id": 3, "label": 1}, {"id": 3, "label": 0}], "links": []}',
            "the node 3 comes 2 times",
        ),
        (
            "a.json",
            '{"nodes": [{"id": 3, "label": 1, "train_mask": 1, "test_mask": 1}], "links": []}',
            "node number 0 is in train_mask and in test_mask",
        ),
        (
            "a.json",
            '{"nodes": [{"id": 1, "label": [0, 1]}], "links": []}',
            r"\[0, 1\] is no class: give one name or number",
        ),
        (
            "a.json",
            '{"nodes": [{"label": 1}], "links": []}',
            "is not a graph by networkx.node_link_data: a node has no id",
        ),
        ("a.graphml", "<graphml>", "is not a GraphML file"),
        (
            "a.graphml",
            graphml('<node id="x"/><edge source="x" target="y"/>'),
            'is not a GraphML file: an edge names "y", which is not among the nodes',
        ),
        ("a.graphml", graphml('<node id="x"/><node id="x"/>'), 'the node "x" comes 2 times'),
        (
            "a.graphml",
            graphml("</graph><graph>"),
            "it has 2 graphs: put each into a file of its own",
        ),
        ("a.bin", "x", "holds no graphs that can be read: name a .graphml file, a .json file"),
    ],
)
def test_read_graphs_names_a_bad_file(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=rf"{name}:? .*{message}"):
        read_graphs(tmp_path / name)


@pytest.mark.parametrize("label", [0.5, "-1.25e1", "0.5, 2"])
def test_read_graphs_refuses_regression(label: Any, tmp_path: Path) -> None:
    message = rf"graph\.graphml: a label is {str(label)[:3]}.*, but .* does not support regression"
    of_nodes = write(triangle(label=[label, label, label]), tmp_path / "graph.graphml")
    with pytest.raises(ValueError, match=message):
        read_graphs(of_nodes)
    whole = triangle()
    whole.graph["label"] = label
    with pytest.raises(ValueError, match=message):
        read_graphs(write(whole, tmp_path / "graph.graphml"))


@pytest.mark.parametrize(
    ("name", "value"), [("weight", 0.5), ("edge_weight", 2), ("feat", "1, 2"), ("edge_attr", 1)]
)
def test_read_graphs_refuses_edge_weights_and_edge_features(
    name: str, value: Any, tmp_path: Path
) -> None:
    given = triangle(label=[0, 1, 1])
    given.edges[0, 1][name] = value
    message = rf"an edge has '{name}': .*, but the task graphs does not support edge weights"
    for file in ("graph.json", "graph.graphml"):
        with pytest.raises(ValueError, match=rf"{file}: {message}"):
            read_graphs(write(given, tmp_path / file))
    edges = f"graph_id,src_id,dst_id,{name}\n0,x,y,'{value}'\n"
    (tmp_path / "csv").mkdir()
    with pytest.raises(ValueError, match=rf"edges\.csv: {message}"):
        read_graphs(csv_folder(tmp_path / "csv", edges=edges))


def test_read_graphs_takes_edges_of_weight_one(tmp_path: Path) -> None:
    given = triangle(label=[0, 1, 1])
    networkx.set_edge_attributes(given, 1.0, "weight")
    assert len(read_graphs(write(given, tmp_path / "graph.graphml"))) == 1


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"edges": "src_id,dst_id,graph_id\nx,z,0\n"},
            r"edges\.csv names node 'z', which is not among the nodes of graph '0'",
        ),
        ({"edges": "a,b\n1,2\n"}, r"edges\.csv has neither src_id and dst_id, node_id nor"),
        ({"edges": "src_id,dst_id\nx\n"}, r"edges\.csv has more or fewer columns in row 1"),
        ({"nodes": "node_id,label\n"}, "holds no graph"),
        ({"more": "node_id,label\nx,1\n"}, "nodes.csv and .*more.csv both hold nodes: one type"),
        (
            {"edges": "src_id,dst_id,graph_id\nx,x,0\n", "nodes": "node_id,label\nx,1\n"},
            r"of .*edges.csv and .*nodes\.csv one alone has a column graph_id",
        ),
        (
            {"edges": "src_id,dst_id,graph_id\nx,x,9\n", "nodes": "node_id,graph_id\nx,0\n"},
            r"edges\.csv names graph '9', which has no nodes",
        ),
        (
            {"graphs": "graph_id,label\n0,1\n1,0\n0,0\n"},
            r"graphs\.csv names graph '0' twice",
        ),
        (
            {"nodes": "node_id,graph_id\nx,0\nx,0\ny,1\n"},
            r"nodes\.csv names node 'x' twice in graph '0'",
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
    with pytest.raises(ValueError, match="holds no graphs that can be read"):
        read_graphs(tmp_path)
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
    with pytest.raises(ValueError, match=r"graph\.json: unknown symbol 'c'; known are: a b"):
        graph.labelled(KINDS, CLASSES)
    with pytest.raises(ValueError, match=r"graph\.json: unknown symbol 'no'"):
        graph.labelled(Vocabulary("abc"), CLASSES)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (["1", "1,2", "1"], "node number 1 has 2 numbers in `feat`, where 1 are wanted"),
        (["1", "2", "nan"], r"node number 2 has \[nan\] in `feat`, not finite numbers"),
        ([[1.0], [float("inf")], [2.0]], r"node number 1 has \[inf\] in `feat`"),
    ],
)
def test_labelled_names_the_node_whose_features_do_not_fit(
    features: list[Any], message: str, tmp_path: Path
) -> None:
    [graph] = read_graphs(write(triangle(feat=features, label=[0, 0, 0]), tmp_path / "graph.json"))
    with pytest.raises(ValueError, match=r"graph\.json: " + message):
        graph.labelled(NO_KINDS, CLASSES, graph.num_feats)
