"""Labelled graphs in files that networkx or DGL's users write: GraphML, node-link JSON, CSV."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import isfinite, isnan
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree

import networkx
import numpy as np
from numpy.typing import NDArray

from graphut._files import read_json, reraise_for_file
from graphut.experiments.tasks.base import PARTS, LabelledGraph
from graphut.experiments.tasks.files import read_text
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.experiments.wording import counted

Tables: TypeAlias = "dict[str, tuple[Path, list[dict[str, str]]]]"
KIND = "node"
"""The kind of all nodes of graphs without features."""
_MASKS = dict(zip(PARTS, ("train_mask", "val_mask", "test_mask"), strict=True))
_ATTRIBUTES = ("feat", "label", *_MASKS.values())
_EDGE_ATTRIBUTES = ("weight", "edge_weight", "feat", "edge_attr")
"""Names by which networkx, DGL and PyG store weights and features of edges."""
_SUFFIXES = (".graphml", ".json")
_FORMATS = (
    "a .graphml file, a .json file of networkx.node_link_data, a folder of such files, or a folder "
    "of .csv files as DGL's CSVDataset has them"
)


@dataclass(frozen=True)
class GraphFile:
    """A graph as it stands in a file."""

    place: str  # the file, for messages
    edges: NDArray[np.int64]  # (2, E), with an edge from each node to itself
    features: list[Any] | None  # `feat` of each node: texts, or lists of numbers
    labels: list[str | None] | None  # `label` of each node
    label: str | None  # `label` of the graph
    masks: dict[str, NDArray[np.bool_]]  # by part: the nodes that are asked in it
    num_nodes: int

    @property
    def has_kinds(self) -> bool:
        """True if nodes have kinds, or nothing, in place of features."""
        return self.features is None or isinstance(self.features[0], str)

    @property
    def kinds(self) -> Sequence[str]:
        """The kind of each node."""
        return [KIND] * self.num_nodes if self.features is None else self.features

    @property
    def num_feats(self) -> int:
        """The number of features of its first node; 0 where nodes have kinds."""
        return 0 if self.features is None or self.has_kinds else len(self.features[0])

    def labelled(self, kinds: Vocabulary, answers: Vocabulary, num_feats: int = 0) -> LabelledGraph:
        """Return the graph in the numbers of a model's vocabularies.

        Raise `ValueError` if a kind or a class is unknown, features stand where the model has
        kinds, or a node has other than `num_feats` finite features where the model has none.
        """
        with reraise_for_file(self.place, ""):
            if self.has_kinds != bool(kinds.symbols):
                has = "kinds" if self.has_kinds else "features"
                raise ValueError(f"its nodes have {has} in `feat`, and those of the others do not")
            given = [self.label] if self.labels is None else self.labels
            return LabelledGraph(
                edges=self.edges,
                nodes=_indices(self.kinds, kinds) if kinds.symbols else self._numbers(num_feats),
                labels=_indices(given, answers),
            )

    def asked_in(self, part: str) -> NDArray[np.bool_]:
        """Return which nodes are asked in a part; without masks, all are in each."""
        return self.masks.get(part, np.full(self.num_nodes, not self.masks))

    def _numbers(self, num_feats: int) -> NDArray[np.float32]:
        rows = self.features or []
        for node, row in enumerate(rows):
            if len(row) != num_feats:
                raise ValueError(
                    f"node number {node} has {counted(len(row), 'number')} in `feat`, where "
                    f"{num_feats} are wanted"
                )
            if not all(map(isfinite, row)):
                raise ValueError(f"node number {node} has {row} in `feat`, not finite numbers")
        return np.array(rows, np.float32)


def asking(graph: LabelledGraph, asked: NDArray[np.bool_]) -> LabelledGraph:
    """Return a graph in which some nodes alone are asked."""
    return graph._replace(labels=np.where(asked, graph.labels, -1))


def read_graphs(path: str | Path) -> list[GraphFile]:
    """Read the graphs in a file, or in all files of a folder.

    A node has the attributes `feat` (numbers, or the name of its kind) and `label` (a class). If
    no node has a label, the graph has the attribute `label` instead. An empty label and -1 mean
    that there is no label. White space in names becomes "_". The attributes `train_mask`,
    `val_mask` and `test_mask` may select the labelled nodes of each part. Edges of undirected
    graphs count in both directions. Nodes without a self-loop get one.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no graph, or one cannot be read. `ValueError` also for what the task `graphs`
        does not support: real-valued labels (regression), edge weights and edge features. The
        message names the file.
    """
    files = graph_files(path)
    if files[0].suffix == ".csv":
        graphs = _read_csv(files)
    else:
        graphs = [_of_networkx(str(file), _read_networkx(file)) for file in files]
    if not graphs:
        raise ValueError(f"{path} holds no graph")
    if any(graph.labels is not None for graph in graphs):
        _check_all_have_masks(graphs)
        return [replace(g, labels=g.labels or [None] * g.num_nodes) for g in graphs]
    for graph in graphs:
        if graph.label is None:
            raise ValueError(f"{graph.place} has no `label`, neither at nodes nor of the graph")
    return graphs


def graph_files(path: str | Path) -> list[Path]:
    """Return the file of a path, or the files of graphs in a folder."""
    path = Path(path)
    if path.is_dir():
        for suffixes in (_SUFFIXES, (".csv",)):
            if files := sorted(file for file in path.iterdir() if file.suffix in suffixes):
                return files
    elif not path.exists():
        raise FileNotFoundError(f"there is no {path}: name {_FORMATS}")
    elif path.suffix in _SUFFIXES:
        return [path]
    raise ValueError(f"{path} holds no graphs that can be read: name {_FORMATS}")


def _read_networkx(path: Path) -> networkx.Graph:
    if path.suffix == ".graphml":
        with reraise_for_file(path, "is not a GraphML file"):
            text = read_text(path)
            _check_graphml(text)
            return networkx.parse_graphml(text)
    data = read_json(path)
    with reraise_for_file(path, "is not a graph by networkx.node_link_data"):
        edges = "edges" if "edges" in data else "links"  # networkx before 3.4 wrote "links"
        data["graph"] = dict(data.get("graph", {}))  # old versions wrote pairs
        _check_ids(data["nodes"], data[edges])
        return networkx.node_link_graph(data, edges=edges)


def _check_graphml(text: str) -> None:
    root = ElementTree.fromstring(text)
    graphs = root.findall("{*}graph")
    if len(graphs) > 1:
        raise ValueError(f"it has {len(graphs)} graphs: put each into a file of its own")
    _check_ids(root.iterfind(".//{*}node"), root.iterfind(".//{*}edge"))


def _check_ids(nodes: Iterable[Any], edges: Iterable[Any]) -> None:
    """Raise `ValueError` if a node has no id or that of another, or an edge an end that is no node.

    networkx joins nodes with one id, and makes a node for an unknown end.
    """
    count = Counter(json.dumps(node.get("id")) for node in nodes)
    if "null" in count:
        raise ValueError("a node has no id")
    for node, times in count.items():
        if times > 1:
            raise ValueError(f"the node {node} comes {times} times")
    for edge in edges:
        for end in (json.dumps(edge.get(name)) for name in ("source", "target")):
            if end not in count:
                raise ValueError(f"an edge names {end}, which is not among the nodes")


def _of_networkx(place: str, graph: networkx.Graph) -> GraphFile:
    number = {node: index for index, node in enumerate(graph)}
    _check_edges(place, (data for *_, data in graph.edges(data=True)))
    ends = [(number[source], number[target]) for source, target in graph.edges()]
    if not graph.is_directed():
        ends += [(target, source) for source, target in ends if source != target]
    columns = {name: [data.get(name) for _, data in graph.nodes(data=True)] for name in _ATTRIBUTES}
    return _make(place, ends, columns, graph.graph.get("label"), len(number))


def _read_csv(files: Sequence[Path]) -> list[GraphFile]:
    """Return the graphs of files with the columns of DGL's CSVDataset."""
    tables: Tables = {}
    for file in files:
        reader = csv.DictReader(read_text(file).splitlines(), strict=True, skipinitialspace=True)
        with reraise_for_file(file, "is not a CSV file"):
            reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
            columns, table = set(reader.fieldnames), list(reader)
        keys = {"edges": {"src_id", "dst_id"}, "nodes": {"node_id"}, "graphs": {"graph_id"}}
        kind = next((kind for kind, needed in keys.items() if needed <= columns), None)
        if kind is None:
            raise ValueError(f"{file} has neither src_id and dst_id, node_id nor graph_id")
        if kind in tables:
            raise ValueError(f"{file} and {tables[kind][0]} both hold {kind}: one type is read")
        for index, row in enumerate(table, 1):
            if None in row.values() or None in row:
                raise ValueError(
                    f"{file} has more or fewer columns in row {index} than in its first line"
                )
        tables[kind] = file, [{k: v.strip() for k, v in row.items()} for row in table]
    if "edges" in tables:
        _check_edges(str(tables["edges"][0]), tables["edges"][1])
    if not {"nodes", "edges"} <= tables.keys():
        raise ValueError(f"{files[0].parent} lacks a .csv file with node_id, or one with src_id")
    by_graph = {kind: _by_graph(table) for kind, (_, table) in tables.items()}
    _check_graph_ids(tables, by_graph)
    place, edges = str(tables["nodes"][0]), by_graph["edges"]
    labels = {}
    for key, rows in by_graph.get("graphs", {}).items():
        if len(rows) > 1:
            raise ValueError(f"{tables['graphs'][0]} names graph {key!r} twice")
        labels[key] = rows[0].get("label")
    graphs = []
    for key, rows in by_graph["nodes"].items():
        number = {row["node_id"]: index for index, row in enumerate(rows)}
        if len(number) < len(rows):
            [(twice, _)] = Counter(row["node_id"] for row in rows).most_common(1)
            raise ValueError(f"{place} names node {twice!r} twice in graph {key!r}")
        ends = []
        for edge in edges.get(key, []):
            for end in (edge["src_id"], edge["dst_id"]):
                if end not in number:
                    raise ValueError(
                        f"{tables['edges'][0]} names node {end!r}, which is not among the nodes of "
                        f"graph {key!r}"
                    )
            ends.append((number[edge["src_id"]], number[edge["dst_id"]]))
        values = {name: [row.get(name) for row in rows] for name in _ATTRIBUTES}
        own = place if len(by_graph["nodes"]) == 1 else f"{place}, graph {key!r},"
        graphs.append(_make(own, ends, values, labels.get(key), len(rows)))
    return graphs


def _check_graph_ids(
    tables: Tables, by_graph: Mapping[str, Mapping[str, list[Mapping[str, str]]]]
) -> None:
    """Raise `ValueError` if edges or labels are of no graph that has nodes."""
    (nodes_file, nodes), known = tables["nodes"], by_graph["nodes"]
    edges_file, edges = tables["edges"]
    if nodes and edges and ("graph_id" in edges[0]) != ("graph_id" in nodes[0]):
        raise ValueError(f"of {edges_file} and {nodes_file} one alone has a column graph_id")
    for kind, (file, _) in tables.items():
        strange = by_graph[kind].keys() - known.keys()
        if nodes and strange:
            raise ValueError(f"{file} names graph {min(strange)!r}, which has no nodes")


def _check_edges(place: str, edges: Iterable[Mapping[str, Any]]) -> None:
    """Raise `ValueError` if an edge has features, or a weight other than 1."""
    for edge in edges:
        for name in _EDGE_ATTRIBUTES:
            value = edge.get(name)
            is_one = "weight" in name and str(value) in ("1", "1.0")
            if value not in (None, "") and not is_one:
                raise ValueError(
                    f"{place}: an edge has {name!r}: {value!r}, but the task graphs does not "
                    "support edge weights and edge features; remove this attribute from the edges"
                )


def _by_graph(rows: Sequence[Mapping[str, str]]) -> dict[str, list[Mapping[str, str]]]:
    found: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        found.setdefault(row.get("graph_id", "0"), []).append(row)
    return found


def _make(
    place: str,
    ends: Sequence[tuple[int, int]],
    columns: Mapping[str, list[Any]],
    label: Any,
    num_nodes: int,
) -> GraphFile:
    if num_nodes == 0:
        raise ValueError(f"{place} holds a graph without nodes")
    with reraise_for_file(place, ""):
        looped = {source for source, target in ends if source == target}
        loops = [(node, node) for node in range(num_nodes) if node not in looped]
        features = [None if value in ("", []) else value for value in columns["feat"]]
        if _some(features) and None in features:
            raise ValueError(f"node number {features.index(None)} has no `feat`, but others have")
        labels = [_class(value) for value in columns["label"]]
        masks = {
            part: np.array([_truth(name, value) for value in columns[name]])
            for part, name in _MASKS.items()
            if _some(columns[name])
        }
        _check_masks(masks)
        return GraphFile(
            place=place,
            edges=np.array([*ends, *loops], np.int64).T,
            features=_features(features) if _some(features) else None,
            labels=labels if _some(labels) else None,
            label=_class(label),
            masks=masks,
            num_nodes=num_nodes,
        )


def _check_all_have_masks(graphs: Sequence[GraphFile]) -> None:
    """Raise `ValueError` if some graphs have masks, and no node of another would be asked."""
    for graph in graphs:
        if graph.labels and not graph.masks and any(other.masks for other in graphs):
            raise ValueError(
                f"{graph.place} has labels and no mask, but other graphs have masks: give it "
                f"{', '.join(_MASKS.values())}, or leave them out everywhere"
            )


def _check_masks(masks: Mapping[str, NDArray[np.bool_]]) -> None:
    """Raise `ValueError` if a node is asked in two parts."""
    for (one, first), (other, second) in combinations(masks.items(), 2):
        if (both := first & second).any():
            node = int(both.argmax())
            raise ValueError(f"node number {node} is in {_MASKS[one]} and in {_MASKS[other]}")


def _some(values: Sequence[Any]) -> bool:
    return any(value is not None for value in values)


def _features(values: Sequence[Any]) -> list[Any]:
    """Return lists of numbers, which may stand in a text such as `0.5, 1`; else kinds, as texts.

    Raise `ValueError` if some nodes have numbers and others have none.
    """
    rows = [_row_of_numbers(value) for value in values]
    if None not in rows:
        return rows
    node = rows.index(None)
    if _some(rows) or not isinstance(values[node], str):
        raise ValueError(
            f"node number {node} has {values[node]!r} in `feat`, which are no numbers: let all "
            "nodes have numbers, or all the name of a kind that is no number"
        )
    return ["_".join(value.split()) for value in values]


def _row_of_numbers(value: Any) -> list[float] | None:
    """Return the numbers of a list, of a text such as `[0.5, 1]`, or of one; None for another."""
    if isinstance(value, str):
        inside = re.fullmatch(r"\s*[\[(](.*)[\])]\s*", value)
        value = re.split(r"[,;\s]+", (inside[1] if inside else value).strip(" \t,;"))
    row = value if isinstance(value, list) else [value]
    if any(isinstance(x, str) and "_" in x for x in row):
        return None  # which Python takes for a number in "1_0"
    try:
        return [float(x) for x in row]
    except (TypeError, ValueError):
        return None


def _class(value: Any) -> str | None:
    """Return the name of a class; raise `ValueError` if the label is a real number."""
    name, numbers = _name(value), _row_of_numbers(value)
    if name and any(isfinite(x) and not x.is_integer() for x in numbers or ()):
        raise ValueError(
            f"a label is {value}, a real number, but the task graphs learns classes and does not "
            "support regression; give each node or graph the name or number of a class"
        )
    return name


def _name(value: Any) -> str | None:
    """Return a class as text: 3.0 is the class 3, and an empty text, -1 or NaN is none.

    White space in it becomes "_".
    """
    if isinstance(value, list | dict):
        raise ValueError(f"{value!r} is no class: give one name or number")
    missing = value is None or (isinstance(value, float) and isnan(value))
    text = "" if missing else "_".join(str(value).split())
    whole = re.fullmatch(r"(-?\d+)\.0", text)  # as pandas writes integers beside missing numbers
    text = whole[1] if whole else text
    return None if text in ("", "-1") else text


def _truth(name: str, value: Any) -> bool:
    """Return the value of a mask, in the words of Python, spreadsheets and pandas."""
    word = (_name(value) or "0").lower()
    if word not in ("0", "1", "false", "true"):
        raise ValueError(f"{name} is {value!r}: a mask is true or false, 1 or 0")
    return word in ("1", "true")


def _indices(names: Sequence[str | None], vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Return the number of each symbol, -1 for none."""
    number = {symbol: index for index, symbol in enumerate(vocabulary.symbols)}
    for name in names:
        if name is not None and name not in number:
            vocabulary.encode([name])
    return np.array([-1 if name is None else number[name] for name in names], np.int64)
