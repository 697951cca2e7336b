"""Labelled graphs from files: GraphML, node-link JSON, CSV of DGL's CSVDataset, and `.npy`.

The formats of text become rows, one for each node and edge of a file. `_tabulate` makes columns of
them, as `.npy` files have. `RawGraph.of` converts the columns of all formats.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np

from graphut._files import read_file, reraise_for_file
from graphut.distributed.parts import is_divided
from graphut.experiments.tasks.files import read_text
from graphut.experiments.tasks.graph_arrays import read_arrays, read_part
from graphut.experiments.tasks.raw_graph import RawGraph, graph_files, known_labels
from graphut.models.graph_columns import EDGE_NAMES, MASKS, NODE_NAMES, is_empty, read_mask

Attributes = Mapping[str, Any]
Node = tuple[Any, Attributes]
"""The id and the attributes of a node."""
Edge = tuple[Any, Any, Attributes, bool]
"""The source, the target and the attributes of an edge, and whether it is directed."""
_NAMES = {column: names[:1] for column, names in NODE_NAMES.items()}
_NODE_FIELDS = {*chain(*_NAMES.values()), "id", "node_id", "graph_id"}
_EDGE_FIELDS = {*chain(*EDGE_NAMES.values()), "id", "source", "target", "key"}
_EDGE_FIELDS |= {"src_id", "dst_id", "graph_id"}
_KEYS = {"edges": {"src_id", "dst_id"}, "nodes": {"node_id"}, "graphs": {"graph_id"}}
"""The columns that identify each type of CSV file."""
_written = json.JSONEncoder(ensure_ascii=False).encode  # ids are equal if their texts are
_DIRECTED = {"directed": True, "undirected": False, "true": True, "false": False}


def read_graphs(path: str | Path, target: str | None = "class") -> list[RawGraph]:
    """Read the graph in a file, or the graphs in all files of a folder.

    A node has the attributes `feat` (numbers, or the name of its category) and `label`: a class, or
    numbers if `target` is "labels" or "values". If no node has a label, the graph has the attribute
    `label` instead. An empty label, NaN and the class -1 mean that there is no label. White space
    in names becomes "_". Nodes (or graphs, if graphs are labelled) may have the attributes
    `train_mask`, `val_mask` and `test_mask`, which define the split. Edges may have `weight`,
    `feat` and `type`. An undirected edge becomes two edges, and edges that occur several times are
    kept. Nodes without a self-loop get one. If `target` is None, labels are not read. From a folder
    that `graphut partition` has written, read only the part of this process.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no graph, or a file cannot be read. The message names the file.
    """
    if is_divided(path):
        return [read_part(path, target)]
    files = graph_files(path)
    if files[0].suffix in (".csv", ".npy"):
        graphs = (_read_csv if files[0].suffix == ".csv" else read_arrays)(files, target)
    else:
        read = {".graphml": _read_graphml, ".json": _read_json}
        graphs = [read[file.suffix](file, target) for file in files]
    if not graphs:
        raise ValueError(f"{path} holds no graph")
    at_nodes = any(known_labels(graph.labels).any() for graph in graphs)
    if target is not None and not at_nodes and not any(known_labels(g.label).any() for g in graphs):
        raise ValueError(f"{graphs[0].place} has no `label`, neither at nodes nor of the graph")
    graphs = [replace(g, label=None) if at_nodes else replace(g, labels=None) for g in graphs]
    has_masks = any(graph.masks for graph in graphs)
    for graph in graphs:
        if has_masks and not graph.masks and graph.has_label.any():
            raise ValueError(
                f"{graph.place} has labels and no mask, but other graphs have masks: give it "
                f"{', '.join(MASKS)}, or remove the masks of all graphs"
            )
        if any(len(mask) != len(graph.has_label) for mask in graph.masks.values()) and target:
            kind = "nodes" if at_nodes else "graphs"
            problem = f"has labels of {kind}, but masks of the other kind"
            raise ValueError(f"{graph.place} {problem}: give masks to what has labels")
    return graphs


def _read_graphml(path: Path, target: str | None) -> RawGraph:
    """Read a GraphML file, with the nodes and edges of nested graphs."""
    with reraise_for_file(path, "is not a GraphML file"):
        data = read_file(path)
        encoding = re.match(rb"""\s*<\?xml[^>]*encoding=["']([\w.-]+)""", data)
        root = ElementTree.fromstring(data.decode(encoding[1].decode()) if encoding else data)
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]  # without the namespace
        graphs = root.findall("graph")
        if len(graphs) != 1:
            raise ValueError(f"it has {len(graphs)} graphs: put each into a separate file")
        if root.find(".//hyperedge") is not None:
            raise ValueError("it has a hyperedge: replace it by edges, or by a node")
        keys = _unique([(key.get("id"), key) for key in root.iterfind("key")])
        nodes = [(node.get("id"), _attributes(node, keys, "node")) for node in root.iter("node")]
        default = {
            edge: graph.get("edgedefault", "undirected")
            for graph in root.iter("graph")
            for edge in graph.iterfind("edge")
        }
        edges: list[Edge] = []
        for edge in root.iter("edge"):
            direction = edge.get("directed", default.get(edge))
            is_directed = _pick(_DIRECTED, direction, "directed or edgedefault of an edge")
            values = _attributes(edge, keys, "edge")
            edges.append((edge.get("source"), edge.get("target"), values, is_directed))
        of_graph = _attributes(graphs[0], keys, "graph")
    return _tabulate(str(path), path.name, nodes, edges, of_graph, target)


def _attributes(element: Element, keys: Mapping[str, Element], kind: str) -> dict[str, Any]:
    """Return the attributes of a node, an edge or a graph in GraphML, with the default values."""
    data = element.findall("data")
    texts = [(_pick(keys, each.get("key"), "the key of data"), each.text) for each in data]
    names = {_key_name(key) for key, _ in texts}
    for key in keys.values():
        default = key.find("default")
        if default is not None and key.get("for", "all") in (kind, "all"):
            texts += [(key, default.text)] if _key_name(key) not in names else []
    values = _unique([(_key_name(key), _typed(key, text)) for key, text in texts])
    label = element.find("data/*/NodeLabel")  # of yEd
    if label is not None:
        values.setdefault("label", label.text)
    return {name: value for name, value in values.items() if not is_empty(value)}


def _key_name(key: Element) -> str | None:
    return key.get("attr.name", key.get("id"))


def _typed(key: Element, text: str | None) -> Any:
    """Return the text of an attribute as the type in `attr.type`; integers stay texts."""
    kind = key.get("attr.type")
    if text is None or is_empty(text) or kind not in ("boolean", "float", "double"):
        return text
    return bool(read_mask([text], str(_key_name(key)))[0]) if kind == "boolean" else float(text)


def _read_json(path: Path, target: str | None) -> RawGraph:
    with reraise_for_file(path, "is not a graph by networkx.node_link_data"):
        data = json.loads(read_file(path), object_pairs_hook=_unique)
        links = [name for name in ("edges", "links") if name in data]  # of new and old versions
        if not isinstance(data, dict) or not links or "nodes" not in data:
            names = [*data] if isinstance(data, dict) else data
            raise ValueError(f"it has {names!r:.80}; expected nodes, and links or edges")
        if len(links) == 2 and all(data[name] for name in links):
            raise ValueError("it has edges and links: remove one of them")
        is_directed = _pick(_DIRECTED, json.dumps(data.get("directed", False)), "directed")
        rows = [*chain.from_iterable(data[name] for name in links)]
        for row in (*data["nodes"], *rows):
            if not isinstance(row, dict):
                raise ValueError(f"a node or an edge is {row!r:.80}; expected an object in braces")
        nodes = [(node.get("id"), node) for node in data["nodes"]]
        edges = [(row.get("source"), row.get("target"), row, is_directed) for row in rows]
        of_graph = data.get("graph") or {}
        of_graph = of_graph if isinstance(of_graph, dict) else _unique(of_graph)  # pairs are old
    return _tabulate(str(path), path.name, nodes, edges, of_graph, target)


def _unique(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Return a dictionary; raise `ValueError` if a key occurs twice, which JSON would ignore."""
    pairs = [*pairs]
    values_of = dict(pairs)
    if len(values_of) < len(pairs):
        name, count = Counter(name for name, _ in pairs).most_common(1)[0]
        values = [value for key, value in pairs if key == name]
        raise ValueError(f"{name!r} occurs {count} times, with the values {values!r:.80}")
    return values_of


def _pick(options: Mapping[str, Any], word: Any, what: str) -> Any:
    if word not in options:
        raise ValueError(f"{what} is {word!r}; expected {' or '.join(options)}")
    return options[word]


def _read_csv(files: Sequence[Path], target: str | None) -> list[RawGraph]:
    tables: dict[str, tuple[Path, dict[str, list[dict[str, str]]]]] = {}
    for file in files:
        kind, rows = _read_table(file)
        if kind in tables:
            raise ValueError(
                f"{file} and {tables[kind][0]} both hold {kind}, by their columns: name the "
                "columns of edges src_id and dst_id and those of nodes node_id, or remove one file"
            )
        by_graph: dict[str, list[dict[str, str]]] = {}
        for row in rows:
            by_graph.setdefault(row.get("graph_id", "0"), []).append(row)
        tables[kind] = file, by_graph
    place = str(files[0].parent)
    if not {"nodes", "edges"} <= tables.keys():
        raise ValueError(f"{place} lacks a .csv file with node_id, or one with src_id and dst_id")
    nodes, edges = tables["nodes"][1], tables["edges"][1]
    rows_of_both = chain(*nodes.values(), *edges.values())
    if len({"graph_id" in row for row in rows_of_both}) > 1:
        raise ValueError(f"{place}: only one of the files of nodes and edges has a column graph_id")
    for file, by_graph in tables.values():
        if nodes and (unknown := by_graph.keys() - nodes.keys()):
            raise ValueError(f"{file} refers to graph {min(unknown)!r}, which has no nodes")
    graphs = []
    for key, rows in nodes.items():
        where = place if len(nodes) == 1 else f"{place}, graph {key!r}"
        of_graph = tables["graphs"][1].get(key, []) if "graphs" in tables else []
        if len(of_graph) > 1:
            raise ValueError(f"{where}: {tables['graphs'][0].name} lists the graph {key!r} twice")
        of_nodes = [(row["node_id"], row) for row in rows]
        of_edges = [(row["src_id"], row["dst_id"], row, True) for row in edges.get(key, [])]
        graphs.append(
            _tabulate(where, key, of_nodes, of_edges, of_graph[0] if of_graph else {}, target)
        )
    return graphs


def _read_table(file: Path) -> tuple[str, list[dict[str, str]]]:
    """Return the type of a CSV file ("edges", "nodes" or "graphs") and its rows."""
    lines = StringIO(read_text(file), newline="")  # unlike str.splitlines, splits at line ends only
    reader = csv.DictReader(lines, strict=True, skipinitialspace=True)
    with reraise_for_file(file, "is not a CSV file"):
        reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
        columns, rows = Counter(reader.fieldnames), list(reader)
    for name, count in columns.items():
        if name and count > 1:
            raise ValueError(f"{file} has {count} columns named {name!r}: rename or remove one")
    kind = next((kind for kind, needed in _KEYS.items() if needed <= columns.keys()), None)
    if kind is None:
        raise ValueError(
            f"{file} needs the columns src_id and dst_id for edges, node_id for nodes, or graph_id "
            f"for graphs, separated by commas; its first line is {','.join(columns)!r:.80}"
        )
    for index, row in enumerate(rows, 1):
        if None in row.values() or None in row:
            raise ValueError(f"{file} has a wrong number of columns in row {index}")
    return kind, [{name: value.strip() for name, value in row.items()} for row in rows]


def _tabulate(
    place: str,
    name: str,
    nodes: Sequence[Node],
    edges: Sequence[Edge],
    of_graph: Attributes,
    target: str | None,
) -> RawGraph:
    """Return a graph, given a row for each node and each edge, and the attributes of the graph.

    Two ids are equal if they are written in the same way: 1, 1.0, "1" and true are four nodes.
    """
    with reraise_for_file(place, ""):
        number: dict[str, int] = {}
        for index, (node, _) in enumerate(nodes):
            if node is None:
                raise ValueError("a node has no id")
            if number.setdefault(_written(node), index) != index:
                raise ValueError(f"the node {_written(node)} occurs twice")
        written = [(_written(source), _written(end)) for source, end, *_ in edges]
        for end in chain.from_iterable(written):
            if end not in number:
                raise ValueError(f"an edge refers to {end}, which is not among the nodes")
        ends = [(number[source], number[end]) for source, end in written]
        turned = [k for k, edge in enumerate(edges) if not edge[3] and ends[k][0] != ends[k][1]]
        ends += [ends[k][::-1] for k in turned]
        of_nodes = [row for _, row in nodes]
        of_edges = [edges[k][2] for k in (*range(len(edges)), *turned)]
        columns = _columns(of_nodes, _NAMES) | _columns(of_edges, EDGE_NAMES)
        columns |= {f"graph_{key}": x for key, x in _columns([of_graph], _NAMES).items()}
        unused = {*chain.from_iterable(of_nodes)} - _NODE_FIELDS
        unused |= {f"{key} of edges" for key in {*chain.from_iterable(of_edges)} - _EDGE_FIELDS}
    pairs = np.array(ends, np.int64).reshape(-1, 2).T
    ids = [node for node, _ in nodes]
    return RawGraph.of(place, name, ids, pairs, columns, target, unused=unused)


def _columns(rows: Sequence[Attributes], names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the columns of attributes that a row has, by the first of the `names` in use."""
    columns = {}
    for column, known in names.items():
        name = next((name for name in known if any(name in row for row in rows)), None)
        if name is not None:
            columns[column] = [row.get(name) for row in rows]
    return columns
