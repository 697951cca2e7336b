"""Files of graphs: GraphML and node-link JSON by networkx, and folders of `.npy` files."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphut._files import reraise_for_file
from graphut.experiments.tasks.raw_graph import RawGraph, find_graph_files
from graphut.models.graph_columns import EDGE_NAMES, MASKS, check_edges, plain_array
from graphut.models.graph_inputs import graph_list, raw_columns

_ANSWERS = ("labels", *MASKS)  # columns of nodes, or with this prefix of graphs:
_PREFIX = "graph_"
# What a column has a row for, by the name of the column.
_OWNERS = dict.fromkeys(("features", *_ANSWERS), "node") | dict.fromkeys(EDGE_NAMES, "edge")
_OWNERS |= {f"{_PREFIX}{name}": "graph" for name in _ANSWERS}


def read_graphs(path: str | Path, target: str | None = "class") -> list[RawGraph]:
    """Read the graph in a file, or the graphs in all files of a folder.

    A node has the attributes `feat` (numbers, or the name of its category) and `label`: a class, or
    numbers if `target` is "values". If no node has a label, the graph has the attribute `label`
    instead. An empty label, NaN and the class -1 mean that there is no label. White space in names
    becomes "_". Nodes (or graphs, if graphs are labelled) may have the attributes `train_mask`,
    `val_mask` and `test_mask`, which define the split. Edges may have `weight` and `feat`.
    An undirected edge becomes two edges. Nodes without a self-loop get one. If `target` is None,
    labels are not read. A folder of `.npy` files holds the columns that `write_arrays` writes.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no graph, or a file cannot be read. The message names the file.
    """
    if (files := find_graph_files(path))[0].suffix == ".npy":
        columns = {}
        for file in files:
            with reraise_for_file(file, "is not a .npy file of numbers or text"):
                columns[file.stem] = plain_array(np.load(file, allow_pickle=False), "its values")
        graphs = _split(columns, str(path), target)
    else:
        graphs = [RawGraph(str(file), file.name, _read_networkx(file), target) for file in files]
    if target and not any(graph.has_label.any() for graph in graphs):
        graphs = [replace(graph, by_node=False) for graph in graphs]
        if not any(graph.has_label.any() for graph in graphs):
            where = " in labels.npy or graph_labels.npy" * (files[0].suffix == ".npy")
            raise ValueError(
                f"{graphs[0].place} has no `label`{where}, neither at nodes nor of the graph: name "
                f"the attribute to learn `label`{graphs[0].ignored}"
            )
    for graph in graphs:
        _ = graph.graph, target and graph.masks  # which raise an error
    return graphs


def _read_networkx(path: Path) -> dict[str, Any]:
    """Return the columns of a graph in GraphML or node-link JSON."""
    import networkx  # here, because tasks on drawn graphs need none of it

    with reraise_for_file(path, "is not as networkx.write_graphml or node_link_data writes it"):
        if path.suffix == ".graphml":
            graph = networkx.read_graphml(path)
        else:
            data = json.loads(path.read_bytes())
            graph = networkx.node_link_graph(data, edges="links" if "links" in data else "edges")
            if len(graph) != len(data["nodes"]):  # networkx adds missing nodes
                raise ValueError("the ids of nodes must differ, and the ends of edges be ids")
    return raw_columns(graph)


def _split(columns: Mapping[str, Any], place: str, target: str | None) -> list[RawGraph]:
    """Return the graphs in the columns of a folder; raise `ValueError` for wrong shapes."""
    with reraise_for_file(place, ""):
        edges = columns.get("edges", np.zeros(0))
        if edges.dtype.kind not in "iu" or edges.ndim != 2 or len(edges) != 2:
            got = f"got {edges.shape} {edges.dtype}" if "edges" in columns else "it is missing"
            raise ValueError(f"it needs edges.npy, (2, E) integers; {got}")
        edges = edges.astype(np.int64)
        source = next((name for name in ("graphs", "features") if name in columns), "edges")
        count = int(edges.max(initial=-1)) + 1 if source == "edges" else len(columns[source])
        check_edges(edges, count, f"{source}.npy: correct the edge, or add rows")
        graph = columns.get("graphs", np.zeros(count, np.int64))
        is_whole = graph.dtype.kind in "iu" and not graph[:1].any()
        if not is_whole or not {*np.diff(graph.astype(int))} <= {0, 1}:
            raise ValueError(
                "graphs.npy must hold the number of each node's graph: (N,) ordered integers from 0"
            )
        graph = graph.astype(np.int64)
        if (joins := np.flatnonzero(graph[edges[0]] != graph[edges[1]])).size:
            raise ValueError(f"edge number {joins[0]} joins two graphs")
        graphs = np.arange(graph.max(initial=-1) + 1)
        graph_of = {"node": graph, "edge": graph[edges[0]], "graph": graphs}
        read = {name: rows for name, rows in columns.items() if name in _OWNERS}
        for name, rows in read.items():
            if len(rows) != (expected := len(graph_of[_OWNERS[name]])):
                raise ValueError(
                    f"{name}.npy has {len(rows)} rows; expected one for each {_OWNERS[name]} in "
                    f"{source}.npy, {expected}"
                )
    in_order = np.argsort(graph_of["edge"], kind="stable")
    counts = {owner: np.bincount(of, minlength=len(graphs)) for owner, of in graph_of.items()}

    def pieces(rows: NDArray[Any], owner: str) -> list[NDArray[Any]]:
        rows = rows[in_order] if owner == "edge" else rows  # nodes are in order
        return np.split(rows, counts[owner].cumsum()[:-1])

    split: dict[str, Any] = {name: pieces(rows, _OWNERS[name]) for name, rows in read.items()}
    split["graphs"], split["ids"] = pieces(graph, "node"), pieces(np.arange(count), "node")
    split["edges"] = [
        ends.T - ids[0] for ends, ids in zip(pieces(edges.T, "edge"), split["ids"], strict=True)
    ]
    ignored = sorted(f"{name}.npy" for name in columns.keys() - {*_OWNERS, "edges", "graphs"})
    split["ignored"] = [ignored] * len(graphs)
    of_graph = (dict(zip(split, row, strict=True)) for row in zip(*split.values(), strict=True))
    return [
        RawGraph(place, str(number), row | {"ids": row["ids"].tolist()}, target)
        for number, row in zip(graphs.tolist(), of_graph, strict=False)
    ]


def write_arrays(graphs: Any, folder: str | Path) -> Path:
    """Write graphs of DGL or PyG as `.npy` files, for `graphut train graphs --data FOLDER`.

    The files are `edges` `(2, E)` and `graphs`, the number of the graph of each node, and those of
    `features`, `labels` and masks (a row for each node), `graph_labels` and so on (a row for each
    graph), `edge_weights` and `edge_features` that the graphs have.

    Parameters
    ----------
    graphs
        A graph of DGL, a `Data` of PyG, an iterable of them or of pairs of a graph and its label,
        or a data set of either library. Batches are split into their graphs.
    folder : str or Path
        An empty or new folder.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from graphut._dgl import dgl
    >>> graph = dgl.rand_graph(5, 9)
    >>> with TemporaryDirectory() as folder:
    ...     sorted(path.name for path in write_arrays([(graph, 1), (graph, 0)], folder).iterdir())
    ['edges.npy', 'graph_labels.npy', 'graphs.npy']
    """
    folder, start = Path(folder), 0
    every = [raw_columns(graph) for graph in graph_list(graphs)]
    by_node = all(
        "graph_labels" not in columns
        and len(columns.get("labels", columns["graphs"])) == len(columns["graphs"])
        for columns in every
    )
    for number, columns in enumerate(every):
        if not (size := len(columns["graphs"])):
            raise ValueError(f"graph number {number} has no nodes: leave it out")
        for name in () if by_node else columns.keys() & {*_ANSWERS}:
            rows = columns.pop(name)
            columns[f"{_PREFIX}{name}"] = rows.reshape(1, -1) if name == "labels" else rows
        columns["edges"] = (columns["edges"] + start).T
        columns["graphs"] += number
        start += size
    joined = {}
    for name in dict.fromkeys(chain(*every)):
        each = [columns[name] for columns in every if name in columns]
        with reraise_for_file(name, "of the graphs do not fit together"):
            joined[name] = np.concatenate([rows for rows in each if rows.size] or each)
    joined["edges"] = joined["edges"].reshape(-1, 2).T
    for graph in _split(joined, str(folder), None):
        _ = graph.graph, replace(graph, by_node=by_node).masks  # which raise an error
    folder.mkdir(parents=True, exist_ok=True)
    if file := next(folder.iterdir(), None):
        raise FileExistsError(f"{folder} is not empty, it has {file.name}: name a new folder")
    for name, rows in joined.items():
        np.save(folder / f"{name}.npy", rows, allow_pickle=False)
    return folder
