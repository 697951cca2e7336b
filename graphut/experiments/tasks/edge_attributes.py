"""Weights, features and types of the edges of a user's graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.graph_targets import name_of, row_of_numbers
from graphut.models.graph_inputs import EdgeAttributes

# The names under which networkx, DGL and PyG store them.
WEIGHTS, FEATURES = ("weight", "edge_weight"), ("feat", "edge_attr")
TYPES = ("type", "edge_type", "etype")


def read_edge_attributes(edges: Sequence[Mapping[str, Any]], loops: int) -> EdgeAttributes:
    """Read the attributes of edges; a number of self-loops without attributes follows them."""
    types = [name_of(value) for value in _column(edges, TYPES)]
    weights, feats = (_numbers(edges, names) for names in (WEIGHTS, FEATURES))
    return EdgeAttributes.of(weights, feats, types, loops)


def _column(edges: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[Any]:
    name = next((own for own in names if any(own in edge for edge in edges)), names[0])
    return [edge.get(name) for edge in edges]


def _numbers(edges: Sequence[Mapping[str, Any]], names: Sequence[str]) -> NDArray[Any] | None:
    """Return `(E, K)` numbers, or None; raise `ValueError` if only some edges have them."""
    values = _column(edges, names)
    if all(value in (None, "") for value in values):
        return None
    rows = [None if value in (None, "") else row_of_numbers(value) for value in values]
    for edge, row in zip(edges, rows, strict=True):
        if row is None or len(row) != len(rows[0] or row):
            raise ValueError(
                f"an edge has {dict(edge)!r:.80}: give all edges the same count of numbers as "
                f"{' or '.join(names)}, or none"
            )
    return np.array(rows)
