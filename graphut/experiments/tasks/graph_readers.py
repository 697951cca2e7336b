"""Labelled graphs from files: GraphML, node-link JSON, CSV of DGL's CSVDataset, and `.npy`."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx
import numpy as np
from numpy.typing import NDArray

from graphut._files import read_json, reraise_for_file
from graphut.distributed.parts import is_divided
from graphut.experiments.tasks.files import read_text
from graphut.experiments.tasks.graph_arrays import read_arrays
from graphut.experiments.tasks.graph_parts import read_part
from graphut.experiments.tasks.graph_targets import name_of, read_labels, row_of_numbers
from graphut.experiments.tasks.raw_graph import (
    KIND,
    MASKS,
    NETWORKX_SUFFIXES,
    RawGraph,
    check_masks,
    graph_files,
    has_some,
)
from graphut.models.graph_inputs import EDGE_NAMES, EdgeAttributes

Attributes = Mapping[str, Any]
Edge = tuple[Hashable, Hashable, Attributes]
"""The source, the target and the attributes of an edge."""
_NODE_FIELDS = {"feat", "label", *MASKS.values(), "node_id", "graph_id"}
_EDGE_FIELDS = {*chain(*EDGE_NAMES.values()), "id", "src_id", "dst_id", "graph_id"}
_KEYS = {"edges": {"src_id", "dst_id"}, "nodes": {"node_id"}, "graphs": {"graph_id"}}
"""The columns that identify each type of CSV file."""


def read_graphs(path: str | Path, target: str | None = "class") -> list[RawGraph]:
    """Read the graph in a file, or the graphs in all files of a folder.

    A node has the attributes `feat` (numbers, or the name of its category) and `label`: a class, or
    numbers if `target` is "labels" or "values". If no node has a label, the graph has the attribute
    `label` instead. An empty label and the class -1 mean that there is no label. White space in
    names becomes "_". Nodes (or graphs, if graphs are labelled) may have the attributes
    `train_mask`, `val_mask` and `test_mask`, which define the split. Edges may have `weight`,
    `feat` and `type`. An undirected edge becomes two edges. Nodes without a self-loop get one. If
    `target` is None, labels are not read. From a folder that `graphut partition` has written, read
    only the part of this process.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no graph, or a file cannot be read. The message names the file.
    """
    if is_divided(path):
        return [read_part(path, target)]
    files = graph_files(path)
    if files[0].suffix in NETWORKX_SUFFIXES:
        graphs = [_read_networkx(file, target) for file in files]
    else:
        graphs = (_read_csv if files[0].suffix == ".csv" else read_arrays)(files, target)
    if not graphs:
        raise ValueError(f"{path} holds no graph")
    has_masks = any(graph.masks for graph in graphs)
    at = [at for at in ("labels", "label") if has_some(getattr(graph, at) for graph in graphs)]
    if at:
        graphs = [_with_labels(graph, at[0], graphs) for graph in graphs]
    elif target is not None:
        raise ValueError(f"{graphs[0].place} has no `label`, neither at nodes nor of the graph")
    for graph in graphs:
        if has_masks and not graph.masks and graph.has_labels:
            raise ValueError(
                f"{graph.place} has labels and no mask, but other graphs have masks: give it "
                f"{', '.join(MASKS.values())}, or remove the masks of all graphs"
            )
    return graphs


def _with_labels(graph: RawGraph, at: str, others: Iterable[RawGraph]) -> RawGraph:
    """Return the graph; if it lacks labels in the field `at`, add None or NaN, as in `others`."""
    if getattr(graph, at) is not None:
        return graph
    given = next(labels for other in others if (labels := getattr(other, at)) is not None)
    count = graph.num_nodes if at == "labels" else 1
    missing: Any = [None] * count
    if isinstance(given, np.ndarray):
        missing = np.full((count, given.shape[1]), np.nan, np.float32)
    return replace(graph, **{at: missing})


def _read_networkx(path: Path, target: str | None) -> RawGraph:
    if path.suffix == ".graphml":
        with reraise_for_file(path, "is not a GraphML file"):
            text = read_text(path)
            root = ElementTree.fromstring(text)
            if (count := len(root.findall("{*}graph"))) > 1:
                raise ValueError(f"it has {count} graphs: put each into a separate file")
            _check_ids(root.iterfind(".//{*}node"), root.iterfind(".//{*}edge"))
            graph = networkx.parse_graphml(text)
    else:
        data = read_json(path)
        with reraise_for_file(path, "is not a graph by networkx.node_link_data"):
            links = "edges" if "edges" in data else "links"  # networkx before 3.4 wrote "links"
            if not isinstance(data, dict) or not {"nodes", links} <= data.keys():
                found = [*data] if isinstance(data, dict) else data
                raise ValueError(f"it has {found!r:.80}; expected nodes, and links or edges")
            data["graph"] = dict(data.get("graph", {}))  # old versions wrote pairs
            _check_ids(data["nodes"], data[links])
            graph = networkx.node_link_graph(data, edges=links)
    edges = [*graph.edges(data=True)]
    if not graph.is_directed():
        edges += [(target, source, data) for source, target, data in edges if source != target]
    return _make(str(path), path.name, dict(graph.nodes(data=True)), edges, graph.graph, target)


def _check_ids(nodes: Iterable[Any], edges: Iterable[Any]) -> None:
    """Raise `ValueError` if two nodes have the same id, or an edge refers to an unknown id.

    Otherwise networkx would merge the nodes, or add a node for the unknown id.
    """
    count = Counter(json.dumps(node.get("id")) for node in nodes)
    if "null" in count:
        raise ValueError("a node has no id")
    for node, times in count.items():
        if times > 1:
            raise ValueError(f"the node {node} occurs {times} times")
    for edge in edges:
        for end in (json.dumps(edge.get(name)) for name in ("source", "target")):
            if end not in count:
                raise ValueError(f"an edge refers to {end}, which is not among the nodes")


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
    named = [
        {"graph_id" in row for rows in table.values() for row in rows} for table in (nodes, edges)
    ]
    if named[0] and named[1] and named[0] != named[1]:
        raise ValueError(f"{place}: only one of the files of nodes and edges has a column graph_id")
    for file, found in tables.values():
        if nodes and (unknown := found.keys() - nodes.keys()):
            raise ValueError(f"{file} refers to graph {min(unknown)!r}, which has no nodes")
    graphs = []
    for key, rows in nodes.items():
        own = place if len(nodes) == 1 else f"{place}, graph {key!r}"
        ends = [(edge["src_id"], edge["dst_id"], edge) for edge in edges.get(key, [])]
        of_graph = tables["graphs"][1].get(key, []) if "graphs" in tables else []
        with reraise_for_file(own, ""):
            if len(of_graph) > 1:
                raise ValueError(f"{tables['graphs'][0].name} lists the graph {key!r} twice")
            _check_ids(
                [{"id": row["node_id"]} for row in rows],
                [{"source": source, "target": target} for source, target, _ in ends],
            )
        of_nodes: dict[Hashable, Attributes] = {row["node_id"]: row for row in rows}
        graphs.append(_make(own, key, of_nodes, ends, of_graph[0] if of_graph else {}, target))
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
            f"{file} needs the columns src_id and dst_id, node_id, or graph_id, separated by "
            f"commas; its first line is {','.join(columns)!r:.80}"
        )
    for index, row in enumerate(rows, 1):
        if None in row.values() or None in row:
            raise ValueError(f"{file} has a wrong number of columns in row {index}")
    return kind, [{name: value.strip() for name, value in row.items()} for row in rows]


def _make(
    place: str,
    name: str,
    nodes: Mapping[Hashable, Attributes],
    edges: Sequence[Edge],
    of_graph: Attributes,
    target: str | None,
) -> RawGraph:
    """Return a graph, given the attributes of nodes, edges and graph.

    Error messages begin with `place`, the file or folder of the graph. The argument `target` is the
    kind of labels, as in `read_graphs`.
    """
    if not nodes:
        raise ValueError(f"{place} holds a graph without nodes")
    with reraise_for_file(place, ""):
        number = {node: index for index, node in enumerate(nodes)}
        ends = [(number[source], number[target]) for source, target, _ in edges]
        looped = {source for source, target in ends if source == target}
        loops = [(node, node) for node in range(len(nodes)) if node not in looped]

        def column(key: str) -> list[Any]:
            return [data.get(key) for data in nodes.values()]

        feats = [None if value in ("", []) else value for value in column("feat")]
        features = _features(feats, [*nodes])
        has_kinds = isinstance(features[0], str)
        labels = read_labels(column("label"), target)
        masks = _masks([of_graph]) if labels is None else _masks(nodes.values(), [*nodes])
        unused = {*chain.from_iterable(nodes.values())} - _NODE_FIELDS
        return RawGraph(
            place=place,
            edges=np.array(ends + loops, np.int64).T,
            kinds=features if has_kinds else None,
            features=[] if has_kinds else features,
            labels=labels,
            label=read_labels([of_graph.get("label")], target),
            masks=masks,
            of_edges=read_edge_attributes(edges, len(loops)),
            unused=frozenset(
                unused
                | {f"{name} of edges" for *_, d in edges for name in d if name not in _EDGE_FIELDS}
            ),
            ids=[*nodes],
            name=name,
            unused_numbers=frozenset(
                name
                for name in unused
                if not has_some(feats) and None not in map(row_of_numbers, column(name))
            ),
        )


def read_edge_attributes(edges: Sequence[Edge], loops: int) -> EdgeAttributes:
    """Return the attributes of edges; append `loops` self-loops with weight 1 and zero features."""
    weights, feats, types = (_column(edges, names) for names in EDGE_NAMES.values())
    weight, feat = (_numbers(edges, *column) for column in (weights, feats))
    return EdgeAttributes.of(weight, feat, [*map(name_of, types[1])], loops)


def _column(edges: Sequence[Edge], names: Sequence[str]) -> tuple[str, list[Any]]:
    """Return the first of `names` that an edge has as an attribute, and its values."""
    name = next((own for own in names if any(own in data for *_, data in edges)), names[0])
    return name, [data.get(name) for *_, data in edges]


def _numbers(edges: Sequence[Edge], name: str, values: Sequence[Any]) -> NDArray[Any] | None:
    """Return `K` numbers for each edge, `(E, K)`; None if all are missing, an error if some are."""
    if all(value in (None, "") for value in values):
        return None
    rows = [None if value in (None, "") else row_of_numbers(value) for value in values]
    for (source, end, _), value, row in zip(edges, values, rows, strict=True):
        if row is None or len(row) != len(rows[0] or row):
            found = "no" if value in (None, "") else f"{value!r:.80} in"
            raise ValueError(
                f"the edge from {source!r} to {end!r} has {found} `{name}`: give all edges as many "
                "numbers as the others, or give none"
            )
    return np.array(rows)


def _masks(
    rows: Collection[Attributes], ids: Sequence[Hashable] | None = None
) -> dict[str, NDArray[np.bool_]]:
    """Return a dictionary from parts, such as "train", to masks; check that no masks overlap."""
    masks = {
        part: np.array([_truth(key, row.get(key)) for row in rows])
        for part, key in MASKS.items()
        if has_some([row.get(key) for row in rows])
    }
    check_masks(masks, ids)
    return masks


def _features(values: Sequence[Any], ids: Sequence[Hashable]) -> list[Any]:
    """Return a list of numbers for each node, or the name of each node's kind (category)."""
    if not has_some(values):
        return [KIND] * len(values)
    if None in values:
        lacking = ids[values.index(None)]
        raise ValueError(f"node {lacking!r} has no `feat`, but other nodes have")
    rows = [row_of_numbers(value) for value in values]
    if None not in rows:
        return rows
    node = rows.index(None)
    if has_some(rows) or not isinstance(values[node], str):
        raise ValueError(
            f"node {ids[node]!r} has {values[node]!r} in `feat`, which is not a list of numbers: "
            "give all nodes numbers, or give all nodes the name of a kind"
        )
    return ["_".join(value.split()) for value in values]


def _truth(name: str, value: Any) -> bool:
    """Convert an element of the mask `name`, such as 1, "TRUE", "0.0" or None, to a bool."""
    word = (name_of(value, name) or "0").lower()
    if word not in ("0", "1", "false", "true"):
        raise ValueError(f"{name} is {value!r}: a mask is true or false, 1 or 0")
    return word in ("1", "true")
