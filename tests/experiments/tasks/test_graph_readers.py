import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.base import PARTS
from graphut.experiments.tasks.graph_readers import read_graphs
from graphut.experiments.tasks.raw_graph import RawGraph, graph_files, read_labels
from tests.helpers import refuses

NO_KINDS, CLASSES = Vocabulary([]), Vocabulary(["0", "1", "yes"])


def triangle(**attributes: list[Any]) -> networkx.Graph:
    graph = networkx.cycle_graph(3)
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


def ends(graph: RawGraph) -> list[tuple[int, ...]]:
    return sorted(map(tuple, graph.edges.T.tolist()))


def test_read_graphs_with_one_label_for_each_and_no_features(tmp_path: Path) -> None:
    for index, label in enumerate(["yes", 1.0]):
        graph = triangle()
        graph.graph["label"] = label
        write(graph, tmp_path / f"{index}.json")
    one, other = read_graphs(tmp_path)
    assert (one.label, other.label, one.labels) == (["yes"], ["1"], None)
    labelled = one.labelled(Vocabulary(["node"]), CLASSES)
    assert labelled.labels.tolist() == [2] and labelled.nodes.tolist() == [0, 0, 0]
    old = '{"nodes": [{"id": 1}], "links": [], "graph": [["label", "yes"]]}'  # pairs
    (tmp_path / "0.json").write_text(old)
    assert read_graphs(tmp_path / "0.json")[0].label == ["yes"]


def test_read_graphs_joins_the_words_of_names(tmp_path: Path) -> None:
    drawn = triangle(feat=["a b", "c", ""], label=["Mr. Hi", "no", "no"])
    with pytest.raises(ValueError, match="node 2 has '' in `feat`, which is neither"):
        read_graphs(write(drawn, tmp_path / "graph.json"))
    drawn.nodes[2]["feat"] = "1_0"
    [graph] = read_graphs(write(drawn, tmp_path / "graph.json"))
    assert (graph.kinds, graph.labels) == (["a_b", "c", "1_0"], ["Mr._Hi", "no", "no"])
    networkx.set_node_attributes(drawn, "", "feat")
    assert read_graphs(write(drawn, tmp_path / "graph.json"))[0].kinds == ["node"] * 3


def test_read_graphs_with_masks_in_one_file_alone(tmp_path: Path) -> None:
    write(triangle(label=[0, 1, 0], test_mask=[1, 1, 1]), tmp_path / "b.json")
    write(triangle(label=[0, 1, 0]), tmp_path / "a.graphml")
    (tmp_path / "notes.txt").write_text("hello")
    assert [path.name for path in graph_files(tmp_path)] == ["a.graphml", "b.json"]
    refuses(r"a\.graphml has labels and no mask, but other graphs", read_graphs, tmp_path)


def test_read_graphs_of_csv_files(tmp_path: Path) -> None:
    one, other = read_graphs(csv_folder(tmp_path))
    assert ends(one) == [(0, 0), (0, 1), (1, 1)] and ends(other) == [(0, 0)]
    assert one.labelled(NO_KINDS, CLASSES, 2).nodes.tolist() == [[1, 2], [3, 4]]
    assert one.labelled(NO_KINDS, CLASSES, 2).labels.tolist() == [0, 1]
    files = {"edges": "src_id, dst_id\nx, y\n", "graphs": "graph_id,label\n0,\n"}
    spaces = "node_id , feat, label\nx, '2.5; 1', 1\ny , '3, 2', 0\n"
    [graph] = read_graphs(csv_folder(tmp_path, nodes=spaces, **files))
    assert ends(graph) == [(0, 0), (0, 1), (1, 1)] and graph.labels == ["1", "0"]
    assert graph.features is not None and graph.features.tolist() == [[2.5, 1.0], [3.0, 2.0]]
    breaks = "node_id,feat,label,,\nx,a\u2028b,0,,\ny,c\x0bd,1,,\n"  # none of these ends a row
    [graph] = read_graphs(csv_folder(tmp_path, nodes=breaks, **files))
    assert graph.kinds == ["a_b", "c_d"] and graph.labels == ["0", "1"]
    pandas = "node_id,label,train_mask,val_mask\nx,1.0,TRUE,0.0\ny,-1.0,FALSE,1.0\n"
    [graph] = read_graphs(csv_folder(tmp_path, nodes=pandas, **files))
    assert graph.labels == ["1", None]
    masks = {part: mask.tolist() for part, mask in graph.masks.items()}
    assert masks == {"train": [True, False], "validation": [False, True]}


def node_link(*nodes: dict[str, Any], links: Sequence[tuple[Any, Any]] = ()) -> str:
    edges = [{"source": source, "target": target} for source, target in links]
    return json.dumps({"nodes": nodes, "links": edges})


BAD_FILES = {
    "is not a graph by networkx.node_link_data: Expecting property name": "{",
    r"by networkx.node_link_data: it has \[1\]; expected nodes, and links or edges": "[1]",
    r"it has \['nodes', 'arcs'\]; expected nodes, and links": '{"nodes": [], "arcs": []}',
    "holds a graph without nodes": node_link(),
    "has no `label`, neither at nodes nor": node_link({"id": 1}),
    "node 2 has no `feat`: give all": node_link({"id": 1, "feat": 2, "label": 1}, {"id": 2}),
    "an edge refers to 1, which is not among the nodes": node_link(
        {"id": "1", "label": 1}, links=[(1, "1")]
    ),
    "an edge refers to null, which is not": node_link({"id": 1}, links=[(1, None)]),
    "the node 3 occurs twice": node_link({"id": 3, "label": 1}, {"id": 3, "label": 0}),
    "node 3 is in train_mask and in test_mask": node_link(
        {"id": 3, "label": 1, "train_mask": 1, "test_mask": 1}
    ),
    r"a label must be one name or number, or .*; got \[0, 1\]": node_link(
        {"id": 1, "label": [0, 1]}
    ),
    "a node has no id": node_link({"label": 1}),
    "is not a GraphML file": "<graphml>",
    'an edge refers to "y", which is not among the nodes': graphml(
        '<node id="x"/><edge source="x" target="y"/>'
    ),
    'the node "x" occurs twice': graphml('<node id="x"/><node id="x"/>'),
    "it has 2 graphs: put each into a separate file": graphml("</graph><graph>"),
    "it has a hyperedge": graphml("<hyperedge/>"),
    "the key of data is 'd1'; expected": graphml('<node id="x"><data key="d1">a</data></node>'),
    "directed or edgedefault of an edge is 'no'; expected": graphml('<edge directed="no"/>'),
    "'label' occurs 2 times, with the values": '{"nodes": [{"id": 1, "label": 1, "label": 2}]}',
    "'nodes' occurs 2 times": '{"nodes": [{"id": 1, "label": 1}], "links": [], "nodes": []}',
    "it has edges and links: remove one": '{"nodes": [], "links": [{}], "edges": [{}]}',
    "directed is '\"false\"'; expected": '{"nodes": [], "links": [], "directed": "false"}',
    "the node 1.0 occurs twice": node_link({"id": 1.0, "label": 1}, {"id": 1.0}),
    "node 1 has '1,,3' in `feat`, which is neither": node_link({"id": 1, "feat": "1,,3"}),
    "train_mask is -1; expected true or false": node_link({"id": 1, "label": 1, "train_mask": -1}),
    "test_mask is 'yes'; expected true": node_link({"id": 1, "label": 1, "test_mask": "yes"}),
    "has labels of nodes, but masks of": json.dumps(
        {"nodes": [{"id": 1, "label": 1}, {"id": 2}], "links": [], "graph": {"test_mask": True}}
    ),
}


@pytest.mark.parametrize("message", BAD_FILES)
def test_read_graphs_names_a_bad_file(message: str, tmp_path: Path) -> None:
    text = BAD_FILES[message]
    path = tmp_path / ("a.graphml" if text.startswith("<") else "a.json")
    path.write_text(text)
    refuses(rf"{path.name}:? .*{message}", read_graphs, path)


def test_read_graphs_takes_masks_of_graphs(tmp_path: Path) -> None:
    for index, mask in enumerate(["train_mask", "val_mask", "test_mask"]):
        graph = triangle()
        graph.graph.update({"label": [1, 0, 1], mask: True})
        write(graph, tmp_path / f"{index}.json")
    graphs = read_graphs(tmp_path, "labels")
    masks = [[bool(graph.label_mask(part)[0]) for graph in graphs] for part in PARTS]
    assert masks == np.eye(3, dtype=bool).tolist()
    labelled = graphs[0].labelled(Vocabulary(["node"]), Vocabulary("012"))
    assert labelled.labels.tolist() == [[1, 0, 1]]
    with pytest.raises(ValueError, match=r"0\.json: a label has 3 numbers; expected 2"):
        graphs[0].labelled(Vocabulary(["node"]), Vocabulary("01"))


EDGES = "src_id,dst_id,graph_id\nx,"
BAD_TABLES = {
    r"graph '0': an edge refers to \"z\", which is not among the nodes": {"edges": EDGES + "z,0\n"},
    r"edges\.csv needs .*dst_id for edges, .*; its first line is 'a,b'": {"edges": "a,b\n1,2\n"},
    r"edges\.csv has a wrong number of columns in row 1": {"edges": "src_id,dst_id\nx\n"},
    "holds no graph": {"nodes": "node_id,label\n"},
    r"nodes\.csv has 2 columns named 'feat': ": {"nodes": "node_id,feat, feat\nx,1,2\n"},
    "nodes.csv and .*more.csv both hold nodes, by": {"more": "node_id,label\nx,1\n"},
    r"edges\.csv both hold graphs.*: name the columns of edges src_id and dst_id and those": {
        "edges": "source,target,graph_id\nx,y,0\n"
    },
    "only one of the files of nodes and edges has a column graph_id": {
        "edges": EDGES + "x,0\n",
        "nodes": "node_id,label\nx,1\n",
    },
    r"edges\.csv refers to graph '9', which has no nodes": {"edges": EDGES + "x,9\n"},
    r"graph '0': graphs\.csv lists .* twice": {"graphs": "graph_id,label\n0,1\n1,0\n0,0\n"},
    r"graph '0': the node \"x\" occurs twice": {"nodes": "node_id,graph_id\nx,0\nx,0\ny,1\n"},
}


@pytest.mark.parametrize("message", BAD_TABLES)
def test_read_graphs_names_a_bad_csv_file(message: str, tmp_path: Path) -> None:
    refuses(message, read_graphs, csv_folder(tmp_path, **BAD_TABLES[message]))


def test_read_graphs_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no .*nowhere: name a \.graphml"):
        read_graphs(tmp_path / "nowhere")
    (tmp_path / "a.bin").write_text("x")
    for path in (tmp_path, tmp_path / "a.bin"):
        refuses(r"holds no graphs that can be read: name a \.graphml", read_graphs, path)
    (tmp_path / "edges.csv").write_text("src_id,dst_id\n")
    refuses(r"lacks a \.csv file with node_id, or one with src_id", read_graphs, tmp_path)


def test_read_graphs_reads_labels_of_nodes_where_there_are_some(tmp_path: Path) -> None:
    write(triangle(label=[0, 1, 1]), tmp_path / "a.json")
    graph = triangle()
    graph.graph["label"] = 1
    write(graph, tmp_path / "b.json")
    labelled = [each.labelled(Vocabulary(["node"]), CLASSES) for each in read_graphs(tmp_path)]
    assert [graph.labels.tolist() for graph in labelled] == [[0, 1, 1], [-1, -1, -1]]


def test_labelled_quotes_what_the_others_do_not_have(tmp_path: Path) -> None:
    drawn = triangle(feat=["a", "c", "a"], label=["0", "yes", float("nan")])
    [graph] = read_graphs(write(drawn, tmp_path / "graph.json"))
    labelled = graph.labelled(Vocabulary("abc"), CLASSES)
    assert labelled.nodes.tolist() == [0, 2, 0] and labelled.labels.tolist() == [0, 2, -1]
    message = r"graph\.json: the kind of node 'c' is unknown; known are a, b"
    refuses(message, graph.labelled, Vocabulary("ab"), CLASSES)
    with pytest.raises(ValueError, match=r"graph\.json: the label 'yes' is unknown"):
        graph.labelled(Vocabulary("abc"), Vocabulary("01"))


def draw_graph(seed: int) -> networkx.MultiDiGraph:
    """Draw a directed graph with all attributes; some of its edges are parallel, or loops."""
    random = np.random.default_rng(seed)
    graph = networkx.MultiDiGraph()
    for node, part in enumerate(random.integers(0, 3, int(random.integers(1, 9)))):
        feat = ", ".join(map(str, random.normal(size=2).round(3)))
        label = str(random.choice(["a", "b c", "", "7"])) if node else "a"
        masks = {"train_mask": bool(part == 0), "test_mask": bool(part == 1)}
        graph.add_node(node, feat=feat, label=label, **masks)
    ends = random.integers(0, len(graph), (int(random.integers(20)), 2)).tolist()
    for k, (source, end) in enumerate(ends):
        weight = random.integers(1, 9).item() / 2
        graph.add_edge(source, end, weight=weight, feat=f"{k}", type=f"t{k % 3}")
    return graph


def write_table(path: Path, keys: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
    """Write a CSV file; the last item of a row is a dictionary of attributes."""
    table = [dict(zip(keys, ids, strict=True)) | row for *ids, row in rows] or [dict.fromkeys(keys)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*table[0]])
        writer.writeheader()
        writer.writerows(row for row in table if None not in row.values())


@pytest.mark.parametrize("suffix", [".graphml", ".json", ".csv"])
def test_read_graphs_reads_all_that_was_written(suffix: str, tmp_path: Path) -> None:
    for seed in range(12):
        drawn, path = draw_graph(seed), tmp_path / f"{seed}{suffix}"
        nodes, edges = [*drawn.nodes(data=True)], [*drawn.edges(data=True)]
        if suffix == ".csv":
            path.mkdir()
            write_table(path / "nodes.csv", ["node_id"], nodes)
            write_table(path / "edges.csv", ["src_id", "dst_id"], edges)
        else:
            write(drawn, path)
        [graph] = read_graphs(path)
        assert [*map(int, graph.ids)] == [*drawn]
        assert graph.labels == [row["label"].replace(" ", "_") or None for _, row in nodes]
        for part in ("train", "test"):
            assert graph.masks[part].tolist() == [row[f"{part}_mask"] for _, row in nodes]
        expected = np.array([row["feat"].split(", ") for _, row in nodes], np.float32)
        np.testing.assert_array_equal(graph.features, expected)
        loops = [[node, node] for node in drawn if not drawn.has_edge(node, node)]
        assert graph.edges[:, len(edges) :].T.tolist() == loops
        if edges:
            weights, feats, types = graph.of_edges
            weights = np.ones(graph.edges.shape[1]) if weights is None else weights
            assert feats is not None and types is not None
            columns = *graph.edges.tolist(), weights.tolist(), feats[:, 0].tolist(), types
            rows = [(*ends, row["weight"], int(row["feat"]), row["type"]) for *ends, row in edges]
            assert sorted([*zip(*columns, strict=True)][: len(edges)]) == sorted(rows)


def defaults(element: str, inner: str = "") -> str:
    """GraphML whose keys for nodes, edges and graphs have default values."""
    keys = {
        "node": {"label": ("string", "b"), "test_mask": ("boolean", " true ")},
        "edge": {"weight": ("double", "2.5"), "feat": ("string", "1, 2")},
    }
    text = "".join(
        f'<key id="{kind}{name}" for="{kind}" attr.name="{name}" attr.type="{type}">'
        f"<default>{default}</default></key>"
        for kind, names in keys.items()
        for name, (type, default) in names.items()
    )
    return (
        '<?xml version="1.0" encoding="ISO-8859-1"?>'
        f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{text}{element}</graphml>'
    )


def test_read_graphs_reads_defaults_nested_graphs_and_encodings_of_graphml(tmp_path: Path) -> None:
    inner = '<graph edgedefault="directed"><node id="y"/><edge source="y" target="z"/></graph>'
    text = defaults(
        '<graph edgedefault="undirected"><node id="ü"><data key="nodelabel">a</data>'
        f'<data key="nodetest_mask"> false </data></node><node id="g">{inner}</node><node id="z"/>'
        '<edge id="e" source="ü" target="y"/><edge id="e" source="ü" target="y"/>'
        '<edge source="z" target="g" directed="true"><data key="edgeweight">1</data></edge></graph>'
    )
    (tmp_path / "a.graphml").write_bytes(text.encode("latin-1"))
    [graph] = read_graphs(tmp_path)
    assert graph.ids == ["ü", "g", "y", "z"] and graph.labels == ["a", "b", "b", "b"]
    assert graph.masks["test"].tolist() == [False, True, True, True]
    edges = [(2, 3), (0, 2), (0, 2), (3, 1), (2, 0), (2, 0)]
    assert [*map(tuple, graph.edges.T.tolist())] == [*edges, (0, 0), (1, 1), (2, 2), (3, 3)]
    assert graph.of_edges.weights is not None and graph.of_edges.feats is not None
    assert graph.of_edges.weights.tolist() == [2.5] * 3 + [1] + [2.5] * 2 + [1] * 4
    assert graph.of_edges.feats[:6].tolist() == [[1, 2]] * 6


@pytest.mark.parametrize(
    ("nodes", "links", "others", "edges"),
    [
        ([1, 2], [(1, 2), (1, 2)], {"multigraph": False, "directed": True}, [(0, 1)] * 2),
        ([1, 2], [(1, 2), (2, 1)], {}, [(0, 1), (1, 0)] * 2),
        ([1, 1.0, "1", True], [(1.0, True), ("1", 1)], {"directed": True}, [(1, 3), (2, 0)]),
        ([1, 1.0], [(1, 1.0), (1, 1)], {}, [(0, 1), (1, 0), (0, 0)]),
        ([1, 2], [(1, 2)], {"edges": [], "directed": True}, [(0, 1)]),
        ([[0, 1], [1, 0]], [([0, 1], [1, 0])], {"directed": True}, [(0, 1)]),
    ],
)
def test_read_graphs_merges_nothing(
    nodes: list[Any], links: list[Any], others: Any, edges: list[Any], tmp_path: Path
) -> None:
    rows = [{"id": node, "label": index} for index, node in enumerate(nodes)]
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({**json.loads(node_link(*rows, links=links)), **others}))
    [graph] = read_graphs(path)
    assert graph.ids == nodes and graph.labels == [*map(str, range(len(nodes)))]
    loops = [(node, node) for node in range(len(nodes)) if (node, node) not in edges]
    assert ends(graph) == sorted(edges + loops)


@pytest.mark.parametrize(
    ("values", "target", "expected"),
    [
        (["a b", "", 3.0, -1, "NaN"], "class", ["a_b", None, "3", None, None]),
        ([[1, 0], None, "0,1"], "labels", [[1, 0], [np.nan] * 2, [0, 1]]),
        ([-1, "", float("nan"), "2.5"], "values", [[-1], [np.nan], [np.nan], [2.5]]),
        ([None, "", []], "values", np.zeros((3, 0))),
        (["", None], "class", [None, None]),
    ],
)
def test_read_labels(values: list[Any], target: str, expected: Any) -> None:
    labels: Any = read_labels(values, target)
    if target == "class":
        assert labels == expected
    else:
        np.testing.assert_array_equal(labels, np.array(expected, np.float32))


def test_read_labels_refuses() -> None:
    def check(words: str, values: list[Any], target: str) -> None:
        refuses(words, read_labels, values, target)

    check("a label is '1,,0'; with target 'labels' it is 0 or 1 for each", ["1,,0"], "labels")
    check(r"a label is 1e\+39; with target 'values' it is finite numbers", [1e39], "values")
    check("a label is 2; with target 'labels' it is 0 or 1 for each label", [1, 2], "labels")
    check("a label is 'x'; with target 'values' it is finite numbers", ["x"], "values")
    check("a label is inf", [float("inf")], "values")
    check(r"labels have 1 and 2 numbers \(label number 1 has 1\)", [[1, 2], [1]], "values")
    check("0.5, a real number, .*: pass --target values", [0.5], "class")
    check(r"a label must be .* --target labels or values; got \[0, 1\]", [[0, 1]], "class")
