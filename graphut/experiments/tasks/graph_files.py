"""Files of graphs: GraphML and node-link JSON by networkx, and folders of `.npy` files."""

import json
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import networkx
import numpy as np
from numpy.typing import NDArray

from graphut._files import read_file, reraise_for_file
from graphut.distributed import assign_parts, load_part, write_parts
from graphut.distributed.parts import is_divided
from graphut.experiments.messages import pluralize
from graphut.experiments.tasks.raw_graph import (
    MASK_OF,
    Labels,
    RawGraph,
    find_graph_files,
    known_labels,
    read_labels,
)
from graphut.models.graph_columns import (
    EDGE_NAMES,
    MASKS,
    NODE_NAMES,
    check_edges,
    plain_array,
)
from graphut.models.graph_inputs import graph_list, raw_columns

Columns = dict[str, Any]
Piece = tuple[str, str, Columns]
"""The file of a graph, its name, and its columns."""
_ANSWERS = ("labels", *MASKS)  # columns of nodes, or with this prefix of graphs:
_OF_GRAPHS = tuple(f"graph_{name}" for name in _ANSWERS)
_READ = {*(names[0] for names in NODE_NAMES.values()), *chain(*EDGE_NAMES.values()), "id", "key"}


def read_graphs(path: str | Path, target: str | None = "class") -> list[RawGraph]:
    """Read the graph in a file, or the graphs in all files of a folder.

    A node has the attributes `feat` (numbers, or the name of its category) and `label`: a class, or
    numbers if `target` is "labels" or "values". If no node has a label, the graph has the attribute
    `label` instead. An empty label, NaN and the class -1 mean that there is no label. White space
    in names becomes "_". Nodes (or graphs, if graphs are labelled) may have the attributes
    `train_mask`, `val_mask` and `test_mask`, which define the split. Edges may have `weight`,
    `feat` and `type`. An undirected edge becomes two edges. Nodes without a self-loop get one. If
    `target` is None, labels are not read. A folder of `.npy` files holds the columns that
    `write_arrays` writes, and one of `graphut partition` the part of this process.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no graph, or a file cannot be read. The message names the file.
    """
    part = load_part(path) if is_divided(path) else None
    if part is not None:
        ids = part.arrays["ids"].tolist()
        columns = {**part.arrays, "ids": ids, "edges": part.edges.numpy()}
        columns["graphs"] = np.zeros(len(ids))
        read: list[Piece] = [(str(path), Path(path).name, columns)]
    elif (files := find_graph_files(path))[0].suffix == ".npy":
        read = _read_arrays(files)
    else:
        read = [(str(file), file.name, _read_networkx(file)) for file in files]
    if not read:
        raise ValueError(f"{path} holds no graph")
    labels, by_node = _all_labels(read, target, part is not None)
    graphs = [
        RawGraph.of(place, name, columns, rows, by_node, part=part)
        for (place, name, columns), rows in zip(read, labels, strict=True)
    ]
    for graph in graphs if target and any(graph.masks for graph in graphs) else ():
        if not graph.masks and graph.has_label.any():
            raise ValueError(
                f"{graph.place} has labels and no mask, but other graphs have masks: give it "
                f"{', '.join(MASKS)}, or remove the masks of all graphs"
            )
    return graphs


def _all_labels(
    read: Sequence[Piece], target: str | None, is_part: bool
) -> tuple[list[Labels], bool]:
    """Return the labels of each graph, and whether they are of nodes: they are if there are any."""
    for by_node in (True, False) if target else ():
        labels, prefix = [], "" if by_node else "graph_"
        for place, _, columns in read:
            missing = [None] * (len(columns["graphs"]) if by_node else 1)
            with reraise_for_file(place, ""):
                labels.append(read_labels(columns.get(f"{prefix}labels", missing), str(target)))
        if is_part or any(known_labels(rows).any() for rows in labels):
            return labels, by_node
    if target:
        others = ", ".join(sorted(str(name) for name in read[0][2].get("unused", ())))
        raise ValueError(
            f"{read[0][0]} has no `label`, neither at nodes nor of the graph: name the attribute "
            f"to learn `label`; other attributes are {others or 'missing, too'}"
        )
    return [[] for _ in read], True


def _read_networkx(path: Path) -> Columns:
    """Return the columns of a graph in GraphML or node-link JSON."""
    with reraise_for_file(path, f"is not a {path.suffix} file that networkx reads"):
        if path.suffix == ".graphml":
            graph = networkx.read_graphml(path)
        else:
            data = json.loads(read_file(path))
            graph = networkx.node_link_graph(data, edges="links" if "links" in data else "edges")
            if len(graph) != len(data["nodes"]):
                listed = pluralize(len(data["nodes"]), "node")
                raise ValueError(
                    f"it lists {listed}, but networkx reads {len(graph)}: give each node an `id` "
                    "of its own, and let edges name only these"
                )
    of_nodes = chain.from_iterable(row for _, row in graph.nodes(data=True))
    of_edges = chain.from_iterable(row for *_, row in graph.edges(data=True))
    unused = {*of_nodes} - _READ | {f"{key} of edges" for key in {*of_edges} - _READ}
    return raw_columns(graph) | {"unused": unused}


def _read_arrays(files: Sequence[Path]) -> list[Piece]:
    """Read graphs from the `.npy` files of a folder, without pickle; see `write_arrays`."""
    columns: Columns = {}
    for file in files:
        with reraise_for_file(file, "is not a .npy file of numbers or text"):
            columns[file.stem] = plain_array(np.load(file, allow_pickle=False), "its values")
    return _split(columns, str(files[0].parent))


def _split(columns: Columns, place: str) -> list[Piece]:
    """Return the graphs in the columns of a folder; raise `ValueError` for wrong shapes."""
    with reraise_for_file(place, ""):
        edges = columns.get("edges", np.zeros(0))
        if edges.dtype.kind not in "iu" or edges.ndim != 2 or len(edges) != 2:
            form = f"{edges.dtype} {edges.shape}" if "edges" in columns else "no such file"
            raise ValueError(f"it needs edges.npy, (2, E) integers; found {form}")
        edges = edges.astype(np.int64)
        source = next((name for name in ("graphs", "features") if name in columns), "edges")
        count = int(edges.max(initial=-1)) + 1 if source == "edges" else len(columns[source])
        check_edges(edges, count, f"{source}.npy")
        graph = columns.get("graphs", np.zeros(count, np.int64))
        steps = {*np.diff(graph.astype(int), prepend=0).flat}
        if graph.dtype.kind not in "iu" or not steps <= {0, 1}:
            raise ValueError(
                "graphs.npy must hold the number of the graph of each node, (N,) integers in order"
            )
        graph = graph.astype(np.int64)
        if (joins := np.flatnonzero(graph[edges[0]] != graph[edges[1]])).size:
            raise ValueError(f"edge number {joins[0]} joins two graphs")
        graphs = int(graph.max(initial=-1)) + 1
        rows: dict[str, int] = dict.fromkeys(("features", *_ANSWERS), count)
        rows |= dict.fromkeys(_OF_GRAPHS, graphs) | dict.fromkeys(EDGE_NAMES, edges.shape[1])
        for name in [each for each in rows if each in columns]:
            if len(columns[name]) != rows[name]:
                raise ValueError(
                    f"{name}.npy has {len(columns[name])} rows; expected {rows[name]}, as there "
                    f"are {pluralize(count, 'node')} in {source}.npy, "
                    f"{pluralize(graphs, 'graph')} and {pluralize(edges.shape[1], 'edge')}"
                )
    order = np.argsort(graph[edges[0]], kind="stable")
    starts = np.searchsorted(graph, np.arange(graphs + 1))
    edge_starts = np.searchsorted(graph[edges[0, order]], np.arange(graphs + 1))
    unused = [f"{name}.npy" for name in columns.keys() - rows.keys() - {"edges", "graphs"}]
    split: list[Piece] = []
    for k, (start, end) in enumerate(pairwise(starts.tolist())):
        inside = order[edge_starts[k] : edge_starts[k + 1]]
        index: dict[str, Any] = dict.fromkeys(("features", *_ANSWERS), slice(start, end))
        index |= dict.fromkeys(EDGE_NAMES, inside) | dict.fromkeys(_OF_GRAPHS, slice(k, k + 1))
        of_graph = {name: columns[name][at] for name, at in index.items() if name in columns}
        of_graph |= {"ids": range(start, end), "edges": edges[:, inside] - start}
        of_graph |= {"graphs": graph[start:end], "unused": unused}
        split.append((place, str(k), of_graph))
    return split


def write_arrays(graphs: Any, folder: str | Path) -> Path:
    """Write graphs of DGL or PyG as `.npy` files, for `graphut train graphs --data FOLDER`.

    The files are `edges` `(2, E)` and `graphs`, the number of the graph of each node, and those of
    `features`, `labels` and masks (a row for each node), `graph_labels` and so on (a row for each
    graph), `edge_weights`, `edge_features` and `edge_types` that the graphs have.

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
    if not every:
        raise ValueError(f"expected at least one graph, got {graphs!r}")
    by_node = all(
        "graph_labels" not in columns
        and len(columns.get("labels", columns["graphs"])) == len(columns["graphs"])
        for columns in every
    )
    for number, columns in enumerate(every):
        if not (size := len(columns["graphs"])):
            raise ValueError(f"graph number {number} has no nodes: leave it out")
        if not by_node:
            for name in columns.keys() & {*_ANSWERS}:
                rows = columns.pop(name)
                columns[f"graph_{name}"] = rows.reshape(1, -1) if name == "labels" else rows
        columns["edges"] = (columns["edges"] + start).T
        columns["graphs"] += number
        start += size
    joined = {}
    for name in dict.fromkeys(chain(*every)):
        each = [columns[name] for columns in every if name in columns]
        with reraise_for_file(name, "of the graphs do not fit together"):
            joined[name] = np.concatenate([rows for rows in each if rows.size] or each)
    joined["edges"] = joined["edges"].reshape(-1, 2).T
    for place, name, columns in _split(joined, str(folder)):
        RawGraph.of(place, name, columns, [], by_node)  # the checks of the reader
    folder.mkdir(parents=True, exist_ok=True)
    if file := next(folder.iterdir(), None):
        raise FileExistsError(f"{folder} is not empty, it has {file.name}: name a new folder")
    for name, rows in joined.items():
        np.save(folder / f"{name}.npy", rows, allow_pickle=False)
    return folder


def write_graph_parts(
    graph: RawGraph,
    masks: Mapping[str, Any],
    folder: str | Path,
    parts: int,
    method: str,
    **facts: Any,
) -> Path:
    """Divide a graph with labelled nodes among processes, write the parts, and return the folder.

    `parts` is their number, and `method` is that of `assign_parts`, such as "metis". `masks` has a
    mask of nodes for each of "train", "validation" and "test". `facts` are lists of names that each
    process needs: of all kinds of nodes, classes, and types of edges.
    """
    if not graph.by_node:
        raise ValueError(f"{graph.place} has no labels of nodes: parts are for answers at nodes")
    ids, edges, nodes, weights, feats, types = graph.graph
    of_edges = {
        "edge_weights": weights,
        "edge_features": feats,
        "edge_types": None if types is None else _texts(types),
    }
    labels = graph.labels
    of_nodes = {
        "ids": np.array(ids),
        "features": np.array(nodes),
        "labels": _texts(labels) if isinstance(labels, list) else labels,
        **{MASK_OF[name]: mask for name, mask in masks.items()},
    }
    part_of = assign_parts(edges, len(ids), parts, method)
    columns = {name: rows for name, rows in of_edges.items() if rows is not None}
    return write_parts(folder, edges, part_of, of_nodes, columns, facts)


def _texts(names: Sequence[str | None]) -> NDArray[np.str_]:
    return np.array(["" if name is None else name for name in names])
