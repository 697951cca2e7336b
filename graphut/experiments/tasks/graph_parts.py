"""Divide a user's graph among processes, for `graphut partition`, and read its parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from graphut.distributed import assign_parts, load_part, write_parts
from graphut.experiments.tasks.raw_graph import MASK_OF, RawGraph


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
