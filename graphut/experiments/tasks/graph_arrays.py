"""Read graphs from a folder of `.npy` files, and write such a folder for graphs of DGL and PyG."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphut._files import reraise_for_file
from graphut.experiments.tasks.graph_targets import name_of, read_labels
from graphut.experiments.tasks.raw_graph import KIND, MASKS, RawGraph, check_masks
from graphut.models.graph_inputs import EdgeAttributes, graph_list, raw_arrays, with_loops

# The arrays with a row for each node, for each edge, and for each node or graph.
_OF_NODES = ("features",)
_OF_EDGES = ("edge_weights", "edge_features", "edge_types")
_OF_ANSWERS = ("labels", *MASKS.values())

Arrays = dict[str, NDArray[Any]]


def read_arrays(files: Sequence[Path], target: str | None) -> list[RawGraph]:
    """Read graphs from the `.npy` files of a folder, without pickle.

    `target` is the form of labels ("class", "labels" or "values"); None skips them. The files are:

    - `edges`: `(2, E)` integers, the numbers of sources and destinations.
    - `features`: `(N, F)` or `(N,)` numbers, or `(N,)` names.
    - `labels`: `(N,)` or `(N, K)` for nodes, or a row for each graph.
    - `train_mask`, `val_mask`, `test_mask`: true or false, for the rows of `labels`.
    - `edge_weights`, `edge_types`: `(E,)`; `edge_features`: `(E, F)`.
    - `graphs`: `(N,)`, the index of the graph of each node, in ascending order. Without this file,
      all nodes belong to one graph.

    Raise `ValueError`, which names the folder, if an array is missing or has a wrong shape.
    """
    place = str(files[0].parent)
    arrays: Arrays = {}
    for file in files:
        with reraise_for_file(file, "is not a .npy file of numbers or text"):
            arrays[file.stem] = np.load(file, allow_pickle=False)
    with reraise_for_file(place, ""):
        edges = arrays.get("edges", np.zeros(0))
        if edges.dtype.kind not in "iu" or edges.ndim != 2 or len(edges) != 2:
            found = (
                f"edges.npy is {edges.dtype} {edges.shape}" if "edges" in arrays else "no such file"
            )
            raise ValueError(f"it needs edges.npy, (2, E) integers; {found}")
        edges = edges.astype(np.int64)
        count = len(arrays.get("graphs", arrays.get("features", ())))
        count = count or int(edges.max(initial=-1)) + 1
        of_node = arrays.get("graphs", np.zeros(count, np.int64))
        if of_node.dtype.kind not in "iu" or of_node.ndim != 1:
            raise ValueError("graphs.npy must be (N,) integers, the number of each node's graph")
        of_node = of_node.astype(np.int64)
        _check(arrays, edges, of_node)
        graphs = int(of_node.max(initial=-1)) + 1
        by_node = len(arrays.get("labels", of_node)) == count
        ends = np.searchsorted(of_node, np.arange(1, graphs))
        order = np.argsort(of_node[edges[0]], kind="stable")
        edge_ends = np.searchsorted(of_node[edges[0, order]], np.arange(1, graphs))
        parts: list[Arrays] = [{"nodes": own} for own in np.split(np.arange(count), ends)]
        for name, rows in {**arrays, "edges": edges.T}.items():
            if name in _OF_EDGES or name == "edges":
                split = np.split(rows[order], edge_ends)
            elif name in _OF_NODES or (by_node and name in _OF_ANSWERS):
                split = np.split(rows, ends)
            elif name in _OF_ANSWERS:
                split = np.split(rows, graphs)
            else:
                continue
            for part, own in zip(parts, split, strict=True):
                part[name] = own
        known = {"edges", "graphs", *_OF_NODES, *_OF_EDGES, *_OF_ANSWERS}
        unused = frozenset(f"{name}.npy" for name in arrays.keys() - known)
        return [
            make_graph(place, str(k), part, target, by_node, unused) for k, part in enumerate(parts)
        ]


def _check(arrays: Arrays, edges: NDArray[Any], of_node: NDArray[Any]) -> None:
    """Raise `ValueError` for wrong shapes, unknown nodes, or edges between graphs (`of_node`)."""
    count = len(of_node)
    place = next((name for name in ("graphs", "features") if name in arrays), "edges")
    nodes = f"there are {count} nodes in {place}.npy"
    if (unknown := edges[(edges < 0) | (edges >= count)]).size:
        raise ValueError(f"edges.npy has node {unknown[0]}, but {nodes}")
    if not set(np.diff(of_node, prepend=0)) <= {0, 1}:
        raise ValueError("graphs.npy must hold the number of the graph of each node, in order")
    if (wrong := np.flatnonzero(of_node[edges[0]] != of_node[edges[1]])).size:
        raise ValueError(f"edge number {wrong[0]} joins two graphs")
    answers = len(arrays.get("labels", of_node))
    if answers not in (count, int(of_node.max(initial=-1)) + 1):
        raise ValueError(f"labels.npy has {answers} rows, but {nodes}")
    sizes = dict.fromkeys(_OF_NODES, count) | dict.fromkeys(_OF_EDGES, edges.shape[1])
    for name, rows in (sizes | dict.fromkeys(_OF_ANSWERS, answers)).items():
        if name in arrays and len(arrays[name]) != rows:
            raise ValueError(f"{name}.npy has {len(arrays[name])} rows; expected {rows}")
    features = arrays.get("features", of_node)
    if features.dtype.kind == "U" and features.ndim > 1:
        raise ValueError(f"features.npy of names must be (N,), got {features.shape}")
    for name in MASKS.values():
        if name in arrays and arrays[name].ndim > 1:
            raise ValueError(
                f"{name}.npy has shape {arrays[name].shape}, but a mask has one column: choose a "
                f"split, such as graph.{name}[:, 0]"
            )


def make_graph(
    place: str, name: str, arrays: Arrays, target: str | None, by_node: bool, unused: frozenset[str]
) -> RawGraph:
    """Return the graph in `arrays`, with labels of its nodes if `by_node`, or else one label."""
    nodes, edges = arrays["nodes"], arrays["edges"].T
    features = arrays.get("features", np.full(len(nodes), KIND))
    has_kinds = features.dtype.kind == "U"
    every = with_loops(edges - nodes[0], len(nodes))
    given = arrays.get("labels", np.zeros(0))
    given = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    labels = read_labels(given.tolist(), target)
    masks = {part: arrays[key].astype(bool) for part, key in MASKS.items() if key in arrays}
    check_masks(masks, nodes.tolist() if by_node else None)
    types = [name_of(value) for value in arrays.get("edge_types", np.zeros(0)).tolist()]
    weights, feats = arrays.get("edge_weights"), arrays.get("edge_features")
    return RawGraph(
        place=place,
        edges=every,
        kinds=["_".join(kind.split()) for kind in features.tolist()] if has_kinds else None,
        features=np.zeros(0) if has_kinds else features.reshape(len(nodes), -1),
        labels=labels if by_node else None,
        label=None if by_node else labels,
        masks=masks,
        of_edges=EdgeAttributes.of(weights, feats, types, every.shape[1] - edges.shape[1]),
        unused=unused,
        ids=nodes.tolist(),
        name=name,
    )


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
    ['edges.npy', 'graphs.npy', 'labels.npy']
    """
    folder, start = Path(folder), 0
    every = [raw_arrays(graph) for graph in graph_list(graphs)]
    if not every:
        raise ValueError(f"expected at least one graph, got {graphs!r}")
    by_node = all(len(each.get("labels", each["graphs"])) == len(each["graphs"]) for each in every)
    for number, arrays in enumerate(every):
        if "labels" in arrays and not by_node:
            arrays["labels"] = arrays["labels"].reshape(1, -1)
        arrays["edges"] = (arrays["edges"] + start).T
        arrays["graphs"] += number
        start += len(arrays["graphs"])
    joined = {name: _join(name, every) for name in dict.fromkeys(chain(*every))}
    folder.mkdir(parents=True, exist_ok=True)
    if found := next(folder.iterdir(), None):
        raise FileExistsError(f"{folder} is not empty, it has {found.name}: name a new folder")
    for name, rows in joined.items():
        np.save(folder / f"{name}.npy", rows.T if name == "edges" else rows, allow_pickle=False)
    return folder


def _join(name: str, every: Sequence[Arrays]) -> NDArray[Any]:
    """Concatenate an array of all graphs; raise `ValueError` if it is missing or does not fit."""
    if name in _OF_EDGES:  # graphs without edges may lack it
        every = [arrays for arrays in every if arrays["edges"].size] or every
    each = [arrays[name] for arrays in every if name in arrays]
    if len(each) != len(every):
        raise ValueError(f"only {len(each)} of {len(every)} graphs have {name}")
    if other := [rows.shape for rows in each if rows.shape[1:] != each[0].shape[1:]]:
        raise ValueError(
            f"{name} of graphs have the shapes {each[0].shape} and {other[0]}: give all graphs "
            "the same number of columns"
        )
    rows = np.concatenate(each)
    if rows.dtype == object:
        raise ValueError(f"{name} are neither numbers nor text: {reprlib.repr(rows.tolist())}")
    return rows
