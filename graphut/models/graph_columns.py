"""Attributes of nodes and edges as users write them: checks, and conversion to arrays.

A column holds the values of an attribute: an array, or a list whose values may be texts. Columns
have the names of the `.npy` files that `graphut train graphs` reads.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Self

Column = Sequence[Any] | NDArray[Any]
Columns = Mapping[str, Any]
MASKS = ("train_mask", "val_mask", "test_mask")
# The names of an attribute in a graph of DGL or PyG, by the name of its column. Graphs of networkx
# have the first name.
NODE_NAMES = {
    "features": ("feat", "x", "attr"),
    "labels": ("label", "labels", "y"),
    **{name: (name,) for name in MASKS},
}
EDGE_NAMES = {
    "edge_weights": ("weight", "edge_weight", "w"),
    "edge_features": ("feat", "edge_attr"),
}
_KIND = "node"  # of all nodes of a graph without features
_LARGEST = np.float64(1e15)  # products of two features are finite in float32


def as_list(column: Column) -> list[Any]:
    """Return the values of a column as Python objects."""
    return column.tolist() if isinstance(column, np.ndarray) else [*column]


def plain_array(values: Any, name: str) -> NDArray[Any]:
    """Return an array of numbers or texts; raise `ValueError` for other values, such as objects."""
    array = np.atleast_1d(values)
    if array.dtype.kind not in "biufSU":
        raise ValueError(f"{name} are neither numbers nor text: {reprlib.repr(array.tolist())}")
    return array.astype(str) if array.dtype.kind == "S" else array


def is_empty(value: Any) -> bool:
    """Return whether a value is None, an empty list, or a text without a visible character."""
    return value is None or value == [] or (isinstance(value, str) and not value.strip())


def is_missing(value: Any) -> bool:
    """Return whether a value is empty or NaN, or a list of such values."""
    if isinstance(value, list):
        return all(map(is_missing, value))
    return is_empty(value) or str(value).strip().lower() == "nan"


def row_of_numbers(value: Any) -> list[float] | None:
    """Return the numbers in a list, tuple or text such as "[0.5, 1]"; None for anything else."""
    if isinstance(value, str):
        value = value.strip(" []").split("," if "," in value else None)
    row = value if isinstance(value, list | tuple) else [value]
    if not row or any(isinstance(x, str) and "_" in x for x in row):
        return None  # Python would read "1_0" as 10
    try:
        return [float(x) for x in row]
    except (OverflowError, TypeError, ValueError):
        return None


def number_rows(
    column: Column, name: str, owner: Callable[[int], str]
) -> NDArray[np.float64] | None:
    """Return the `(N, K)` finite numbers in the attribute `name`; None if all are missing.

    `owner` maps the index of a row to words for error messages.
    """
    if not isinstance(column, np.ndarray) or column.dtype.kind == "U":
        values = as_list(column)
        if all(map(is_empty, values)):
            return None
        rows = [row_of_numbers(value) for value in values]
        first = next((row for row in rows if row is not None), [])
        for index, row in enumerate(rows):
            if row is None or len(row) != len(first):
                value = "no" if is_empty(values[index]) else f"{values[index]!r:.80} in"
                raise ValueError(
                    f"{owner(index)} has {value} `{name}`: give all of them as many numbers, "
                    "separated by commas, or leave out the attribute"
                )
        column = np.array(rows)
    if not len(column):
        return None
    numbers = column.reshape(len(column), prod(column.shape[1:]))
    if (is_outside := ~((numbers >= -_LARGEST) & (numbers <= _LARGEST))).any():  # also NaN
        index, place = np.argwhere(is_outside)[0]
        raise ValueError(
            f"{owner(index)} has [{numbers[index, place]}] in `{name}`; expected finite numbers "
            f"from -{_LARGEST:g} to {_LARGEST:g}"
        )
    return numbers.astype(np.float64)


def read_mask(column: Column, name: str) -> NDArray[np.bool_]:
    """Return a mask of true and false, or 1 and 0, as `(N,)` booleans; missing values are False."""
    if isinstance(column, np.ndarray) and column.ndim > 1:
        raise ValueError(
            f"{name} has shape {column.shape}, but a mask has one column: choose a split, such as "
            f"graph.{name}[:, 0]"
        )
    if isinstance(column, np.ndarray) and column.dtype == bool:
        return column
    values = [not is_empty(value) and value for value in as_list(column)]
    for value in values:
        if value not in (0, 1):
            raise ValueError(f"{name} is {value!r}; expected true or false, 1 or 0")
    return np.array(values, bool)


def check_edges(edges: NDArray[np.int64], count: int, place: str) -> None:
    """Raise `ValueError` unless `edges` are `(2, E)` integers below `count`."""
    if edges.shape[:-1] != (2,) or edges.dtype.kind not in "iu":
        raise ValueError(f"edges must be (2, E) integers; got {edges.shape} of {edges.dtype}")
    if (unknown := edges[(edges < 0) | (edges >= count)]).size:
        raise ValueError(f"an edge has node {unknown[0]}, but there are {count} nodes in {place}")


def with_loops(edges: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the `(2, E)` edges followed by a self-loop of each of `count` nodes that has none."""
    missing = np.setdiff1d(np.arange(count), edges[0, edges[0] == edges[1]])
    return np.concatenate([edges, np.stack([missing, missing])], 1)


def indices_of(names: Sequence[str | None], known: Sequence[str], what: str) -> NDArray[np.int64]:
    """Return the index of each name among the `known` ones, and -1 for None."""
    index_of: dict[str | None, int] = {name: index for index, name in enumerate(known)}
    index_of[None] = -1
    if unknown := [name for name in names if name not in index_of]:
        raise ValueError(f"the {what} {unknown[0]!r} is unknown; known are {', '.join(known)}")
    return np.array([index_of[name] for name in names], np.int64)


class GraphInput(NamedTuple):
    """The arrays of a graph that a model reads; a `LabelledGraph` also has all these fields."""

    edges: NDArray[np.int64]  # (2, E), sources and destinations
    nodes: NDArray[Any]  # (N,) kinds, or (N, F) features
    positions: NDArray[Any] | None = None  # (N, k)
    edge_weights: NDArray[Any] | None = None  # (E,) positive
    edge_feats: NDArray[Any] | None = None  # (E, F)


class ParsedGraph(NamedTuple):
    """A graph whose attributes are numbers and names; each node has a self-loop.

    A self-loop that was added has the weight 1, and zeros as features.
    """

    ids: Sequence[Any]
    edges: NDArray[np.int64]  # (2, E), the added self-loops are the last
    nodes: list[str] | NDArray[np.float64]  # the kind of each node, or (N, F) features
    weights: NDArray[np.float64] | None  # (E,); None if all are 1
    feats: NDArray[np.float64] | None  # (E, F)

    @classmethod
    def of(cls, columns: Columns) -> Self:
        """Check and convert the columns of a graph."""
        count = len(columns["graphs"])
        ids = columns.get("ids", range(count))
        edges = with_loops(np.asarray(columns["edges"]), count)
        loops = edges.shape[1] - np.asarray(columns["edges"]).shape[1]

        def edge(index: int) -> str:
            return f"the edge from {ids[edges[0, index]]!r} to {ids[edges[1, index]]!r}"

        weights, feats = (
            number_rows(columns.get(name, ()), EDGE_NAMES[name][0], edge)
            for name in ("edge_weights", "edge_features")
        )
        if weights is not None:
            if weights.shape[1] != 1 or not (weights > 0).all():
                raise ValueError(
                    f"an edge has the weight {weights.min(0)}, but a weight is a positive number: "
                    "leave out edges of weight 0, and give other numbers as `feat` of the edges"
                )
            weights = np.append(weights, np.ones(loops))
            weights = None if (weights == 1).all() else weights
        if feats is not None:
            feats = np.pad(feats, ((0, loops), (0, 0)))
        nodes = _read_nodes(columns.get("features", [None] * count), ids)
        return cls(ids, edges, nodes, weights, feats)

    @property
    def num_feats(self) -> int:
        """The number of features of a node; 0 if nodes have kinds (categories)."""
        return 0 if isinstance(self.nodes, list) else self.nodes.shape[1]

    def encoded(
        self,
        kinds: Sequence[str] | int,
        num_feats: int = 0,
        edge_feats: int = 0,
    ) -> GraphInput:
        """Return the arrays for a model; `kinds` are the names of its kinds of nodes.

        If `kinds` is only the number of kinds, nodes have whole numbers instead of names. Raise
        `ValueError` for an unknown kind, or a wrong number of features.
        """
        feats = self.feats
        # A graph with only self-loops may lack features.
        if feats is None and bool((self.edges[0] == self.edges[1]).all()) and edge_feats:
            feats = np.zeros((self.edges.shape[1], edge_feats))
        width = 0 if feats is None else feats.shape[1]
        if width != edge_feats:
            raise ValueError(f"an edge has {width} numbers in `feat`; expected {edge_feats}")
        nodes = self._encoded_nodes(kinds, num_feats)
        return GraphInput(self.edges, nodes, None, self.weights, feats)

    def _encoded_nodes(self, kinds: Sequence[str] | int, num_feats: int) -> NDArray[Any]:
        nodes = self.nodes
        if not len(self.ids):
            return np.zeros((0, num_feats), np.float32) if num_feats else np.zeros(0, np.int64)
        if self.num_feats == num_feats:
            if not isinstance(nodes, list):
                return nodes.astype(np.float32)
            if not isinstance(kinds, int):
                return indices_of(nodes, kinds, "kind of node")
            if kinds == 1 and {*nodes} == {_KIND}:
                return np.zeros(len(nodes), np.int64)
        if not num_feats and isinstance(kinds, int):
            if not isinstance(nodes, list) and nodes.shape[1] == 1 and not (nodes % 1).any():
                return nodes[:, 0].astype(np.int64)
            raise ValueError(
                f"the model has {kinds} kinds of nodes: set ndata['feat'] of DGL, x of PyG, or "
                f"`feat` of nodes of networkx, to (N,) int64 kinds from 0 to {kinds - 1}"
            )
        has, wanted = (
            f"{n} number{'s' * (n > 1)} in `feat`" if n else "a kind, or no `feat`"
            for n in (self.num_feats, num_feats)
        )
        raise ValueError(f"a node has {has}; those of the model or of other graphs have {wanted}")


def _read_nodes(column: Column, ids: Sequence[Any]) -> list[str] | NDArray[np.float64]:
    """Return the name of the kind (category) of each node, or the numbers in its features."""
    is_numeric = isinstance(column, np.ndarray) and column.dtype.kind != "U" and column.size
    values = [] if is_numeric else as_list(column)
    if not is_numeric and all(map(is_empty, values)):
        return [_KIND] * len(ids)
    if is_numeric or any(row_of_numbers(value) is not None for value in values):
        return np.asarray(number_rows(column, "feat", lambda index: f"node {ids[index]!r}"))
    for index, value in enumerate(values):
        is_name = isinstance(value, str) and not is_empty(value)
        if not is_name or value.strip().startswith("(") or {*value} & {*"[;"}:  # text of an array
            raise ValueError(
                f"node {ids[index]!r} has {value!r:.80} in `feat`, which is neither numbers, such "
                'as "0.5, 1", nor the name of a kind: give all nodes numbers, or all nodes a name'
            )
    return ["_".join(value.split()) for value in values]
