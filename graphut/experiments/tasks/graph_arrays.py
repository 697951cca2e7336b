"""Graphs as `.npy` files: read and write them, and divide a graph among processes."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphut._files import reraise_for_file
from graphut.distributed import assign_parts, load_part, write_parts
from graphut.experiments.tasks.raw_graph import MASK_OF, RawGraph
from graphut.models.graph_columns import EDGE_NAMES, MASKS, check_edges, plain_array
from graphut.models.graph_inputs import graph_list, raw_arrays

_OF_ANSWERS = ("labels", *MASKS)
_OF_GRAPHS = tuple(f"graph_{name}" for name in _OF_ANSWERS)

Arrays = dict[str, NDArray[Any]]


def read_arrays(files: Sequence[Path], target: str | None) -> list[RawGraph]:
    """Read graphs from the `.npy` files of a folder, without pickle.

    `edges` is `(2, E)`, and `graphs` is the index of the graph of each node, in ascending order.
    `features`, `labels` and masks have a row for each node, `graph_labels` and so on for each
    graph, and `edge_weights`, `edge_features` and `edge_types` for each edge. `target` is the form
    of the labels, as in `read_graphs`.
    """
    arrays: Arrays = {}
    for file in files:
        with reraise_for_file(file, "is not a .npy file of numbers or text"):
            arrays[file.stem] = plain_array(np.load(file, allow_pickle=False), "its values")
    return _split(arrays, str(files[0].parent), target)


def _split(arrays: Arrays, place: str, target: str | None) -> list[RawGraph]:
    """Return the graphs in the arrays of a folder; raise `ValueError` for wrong shapes."""
    with reraise_for_file(place, ""):
        edges = arrays.get("edges", np.zeros(0))
        if edges.dtype.kind not in "iu" or edges.ndim != 2 or len(edges) != 2:
            form = f"{edges.dtype} {edges.shape}" if "edges" in arrays else "no such file"
            raise ValueError(f"it needs edges.npy, (2, E) integers; found {form}")
        edges = edges.astype(np.int64)
        source = next((name for name in ("graphs", "features") if name in arrays), "edges")
        count = int(edges.max(initial=-1)) + 1 if source == "edges" else len(arrays[source])
        of_node = arrays.get("graphs", np.zeros(count, np.int64))
        if of_node.dtype.kind not in "iu" or of_node.ndim != 1:
            raise ValueError("graphs.npy must be (N,) integers, the number of each node's graph")
        of_node = of_node.astype(np.int64)
        check_edges(edges, count, f"{source}.npy")
        if not set(np.diff(of_node, prepend=0)) <= {0, 1}:
            raise ValueError("graphs.npy must hold the number of the graph of each node, in order")
        if (joins := np.flatnonzero(of_node[edges[0]] != of_node[edges[1]])).size:
            raise ValueError(f"edge number {joins[0]} joins two graphs")
        graphs = int(of_node.max(initial=-1)) + 1
        for name in _OF_ANSWERS:  # version 0.2.0 wrote those of graphs without the prefix
            if name in arrays and len(arrays[name]) == graphs != count:
                arrays[f"graph_{name}"] = arrays.pop(name)
        rows: dict[str, int] = dict.fromkeys(("features", *_OF_ANSWERS), count) | dict.fromkeys(
            _OF_GRAPHS, graphs
        )
        rows |= dict.fromkeys(EDGE_NAMES, int(edges.shape[1]))
        for name in arrays.keys() & rows.keys():
            if len(arrays[name]) != rows[name]:
                raise ValueError(
                    f"{name}.npy has {len(arrays[name])} rows; expected {rows[name]}, as there are "
                    f"{count} nodes in {source}.npy, {graphs} graphs and {edges.shape[1]} edges"
                )
    order = np.argsort(of_node[edges[0]], kind="stable")
    starts = np.searchsorted(of_node, np.arange(graphs + 1))
    edge_starts = np.searchsorted(of_node[edges[0, order]], np.arange(graphs + 1))
    unused = [f"{name}.npy" for name in arrays.keys() - rows.keys() - {"edges", "graphs"}]
    split = []
    for k, (start, end) in enumerate(pairwise(starts.tolist())):
        inside = order[edge_starts[k] : edge_starts[k + 1]]
        index: dict[str, Any] = dict.fromkeys(rows, slice(start, end))
        index |= dict.fromkeys(EDGE_NAMES, inside) | dict.fromkeys(_OF_GRAPHS, slice(k, k + 1))
        columns = {name: arrays[name][at] for name, at in index.items() if name in arrays}
        ids, ends = [*range(start, end)], edges[:, inside] - start
        split.append(RawGraph.of(place, str(k), ids, ends, columns, target, unused=unused))
    return split


def write_arrays(graphs: Any, folder: str | Path) -> Path:
    """Write a data set of DGL or PyG as `.npy` files, for `graphut train graphs --data FOLDER`.

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
    every = [raw_arrays(graph) for graph in graph_list(graphs)]
    if not every:
        raise ValueError(f"expected at least one graph, got {graphs!r}")
    labels = [(arrays.get("labels", arrays["graphs"]), len(arrays["graphs"])) for arrays in every]
    by_node = all(len(rows) == size for rows, size in labels)
    by_node = by_node and not any("graph_labels" in arrays for arrays in every)
    for number, arrays in enumerate(every):
        size = len(arrays["graphs"])
        if not size:
            raise ValueError(f"graph number {number} has no nodes: leave it out")
        for name in arrays.keys() & {*_OF_ANSWERS}:
            rows = arrays.pop(name)
            if name == "labels" and not by_node:
                rows = rows.reshape(1, -1)
            if len(rows) != (expected := size if by_node else 1):
                raise ValueError(
                    f"graph number {number} has {len(rows)} rows in {name}; expected {expected}, "
                    f"as labels are of {'nodes' if by_node else 'graphs'}"
                )
            arrays[name if by_node else f"graph_{name}"] = rows
        arrays["edges"] = (arrays["edges"] + start).T
        arrays["graphs"] += number
        start += size
    joined = {name: _join(name, every) for name in dict.fromkeys(chain(*every))}
    joined["edges"] = joined["edges"].T
    _split({**joined}, str(folder), None)  # the checks of the reader
    folder.mkdir(parents=True, exist_ok=True)
    if file := next(folder.iterdir(), None):
        raise FileExistsError(f"{folder} is not empty, it has {file.name}: name a new folder")
    for name, rows in joined.items():
        np.save(folder / f"{name}.npy", rows, allow_pickle=False)
    return folder


def _join(name: str, every: Sequence[Arrays]) -> NDArray[Any]:
    """Concatenate an array of all graphs; raise `ValueError` if it is missing or does not fit."""
    if name in EDGE_NAMES:  # graphs without edges may lack it
        every = [arrays for arrays in every if arrays["edges"].size] or every
    each = [arrays[name] for arrays in every if name in arrays]
    if len(each) != len(every):
        raise ValueError(f"only {len(each)} of {len(every)} graphs have {name}")
    if other := [rows.shape for rows in each if rows.shape[1:] != each[0].shape[1:]]:
        raise ValueError(
            f"{name} of graphs have the shapes {each[0].shape} and {other[0]}: give all graphs "
            "the same number of columns"
        )
    return np.concatenate(each)


def write_graph_parts(
    file: RawGraph,
    masks: dict[str, Any],
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
    if file.labels is None:
        raise ValueError(f"{file.place} has no labels of nodes: parts are for answers at nodes")
    labels: Any = file.labels
    if isinstance(labels, list):
        labels = np.array(["" if label is None else label for label in labels])
    edges = file.of_edges
    of_edges = {"edge_weights": edges.weights, "edge_features": edges.feats}
    if edges.types is not None:
        of_edges["edge_types"] = np.array(["" if name is None else name for name in edges.types])
    of_nodes = {
        "ids": np.array(file.ids),
        "features": np.array(file.kinds) if file.features is None else file.features,
        "labels": labels,
        **{MASK_OF[name]: mask for name, mask in masks.items()},
    }
    part_of = assign_parts(file.edges, file.num_nodes, parts, method)
    columns = {name: rows for name, rows in of_edges.items() if rows is not None}
    return write_parts(folder, file.edges, part_of, of_nodes, columns, facts)


def read_part(folder: str | Path, target: str | None) -> RawGraph:
    """Read this process's part of a divided graph from a folder written by `write_graph_parts`."""
    part = load_part(folder)
    columns = {**part.arrays}
    ids = columns.pop("ids").tolist()
    named = str(folder), Path(folder).name
    graph = RawGraph.of(*named, ids, part.edges.numpy(), columns, target, part=part)
    return replace(graph, label=None)
