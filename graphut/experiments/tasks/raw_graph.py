"""A graph as read from a user's file, with the names of its kinds, classes and edge types."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphut._files import reraise_for_file
from graphut.experiments.messages import pluralize
from graphut.experiments.tasks.base import PARTS, LabelledGraph
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.models.graph_columns import (
    MASKS,
    Column,
    Columns,
    EdgeAttributes,
    as_list,
    is_broken_row,
    is_empty,
    is_missing,
    name_of,
    number_rows,
    read_mask,
    row_of_numbers,
    with_loops,
)

Labels = list[str | None] | NDArray[np.float32]
"""Names of classes, or `(N, K)` numbers; None or NaN where a label is missing; K = 0 if all are."""

_LARGEST = 1e30  # of a label, finite in float32
KIND = "node"
"""The kind of all nodes of a graph without features."""
MASK_OF = dict(zip(PARTS, MASKS, strict=True))
NETWORKX_SUFFIXES = (".graphml", ".json")
_FORMATS = (
    "a .graphml file, a .json file of networkx.node_link_data, a folder of such files, or a folder "
    "of .csv files for DGL's CSVDataset or of .npy files"
)


def graph_files(path: str | Path) -> list[Path]:
    """Return the graph files in a folder; if `path` is a graph file, a list with this file."""
    path = Path(path)
    if path.is_dir():
        for suffixes in (NETWORKX_SUFFIXES, (".csv",), (".npy",)):
            if files := sorted(file for file in path.iterdir() if file.suffix in suffixes):
                return files
    elif not path.exists():
        raise FileNotFoundError(f"there is no {path}: name {_FORMATS}")
    elif path.suffix in NETWORKX_SUFFIXES:
        return [path]
    raise ValueError(f"{path} holds no graphs that can be read: name {_FORMATS}")


@dataclass(frozen=True)
class RawGraph:
    """A graph as read from a file; node kinds (categories) and classes are names, not indices."""

    place: str  # the file, for messages
    name: str  # the name of the file, or the id of the graph in it
    ids: Sequence[Any]  # of each node, as in the file
    edges: NDArray[np.int64]  # (2, E), with a self-loop at each node
    kinds: list[str] | None  # of each node, unless nodes have features
    features: NDArray[np.float32] | None  # (N, F), unless nodes have kinds
    labels: Labels | None  # of each node
    label: Labels | None  # of the graph: one label
    masks: dict[str, NDArray[np.bool_]]  # by part, the nodes of that part, or whether it is in it
    of_edges: EdgeAttributes
    unused: Collection[str] = ()  # the names of attributes that are not read
    part: Any = None  # the `graphut.distributed.Part` of this process, if the graph is divided

    @classmethod
    def of(
        cls,
        place: str,
        name: str,
        ids: Sequence[Any],
        edges: NDArray[np.int64],
        columns: Columns,
        target: str | None,
        **others: Any,
    ) -> RawGraph:
        """Convert the columns of a graph, whose names are those of the `.npy` files.

        `target` is the form of the labels, as in `read_graphs`; `others` are further fields.
        """
        if not len(ids):
            raise ValueError(f"{place} holds a graph without nodes")
        with reraise_for_file(place, ""):
            looped = with_loops(edges, len(ids))
            kinds, features = _kinds(columns.get("features", [None] * len(ids)), ids), None
            if kinds is None:
                numbers = number_rows(columns["features"], "feat", lambda i: f"node {ids[i]!r}")
                features = None if numbers is None else numbers.astype(np.float32)
            at = "" if any(name in columns for name in MASKS) else "graph_"
            masks = {
                part: read_mask(columns[at + name], name)
                for part, name in MASK_OF.items()
                if at + name in columns
            }
            for (one, first), (other, second) in combinations(masks.items(), 2):
                if (both := first & second).any():
                    owner = "the graph" if at else f"node {ids[int(both.argmax())]!r}"
                    raise ValueError(f"{owner} is in {MASK_OF[one]} and in {MASK_OF[other]}")
            return cls(
                place=place,
                name=name,
                ids=ids,
                edges=looped,
                kinds=kinds,
                features=features,
                labels=read_labels(columns.get("labels", [None] * len(ids)), target),
                label=read_labels(columns.get("graph_labels", [None]), target),
                masks=masks,
                of_edges=EdgeAttributes.of(columns, looped, ids, looped.shape[1] - edges.shape[1]),
                **others,
            )

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return len(self.ids)

    @property
    def has_label(self) -> NDArray[np.bool_]:
        """A mask with an element for each node, or one for a labelled graph: True if labelled."""
        return known_labels(self.label if self.labels is None else self.labels)

    @property
    def num_feats(self) -> int:
        """The number of features of a node; 0 if nodes have kinds (categories)."""
        return 0 if self.features is None else self.features.shape[1]

    def labelled(
        self,
        kinds: Vocabulary,
        answers: Vocabulary | None,
        num_feats: int = 0,
        edge_types: Sequence[str] = (),
        edge_feats: int = 0,
    ) -> LabelledGraph:
        """Return the graph with indices for the names of node kinds, classes and edge types.

        `kinds` and `answers` are the vocabularies of node kinds and of classes; if `answers` is
        None, all labels are missing. Edge types become one-hot features; `edge_feats` is the number
        of features of an edge, including these. Raise `ValueError` for an unknown kind, edge type
        or label, or a wrong number of features.
        """
        with reraise_for_file(self.place, ""):
            if self.num_feats != num_feats:
                has, others = (
                    f"{pluralize(count, 'number')} in `feat`" if count else "kinds, or no `feat`"
                    for count in (self.num_feats, num_feats)
                )
                raise ValueError(
                    f"its nodes have {has}; those of the other graphs or of the model have {others}"
                )
            nodes = self.features
            return LabelledGraph(
                edges=self.edges,
                nodes=_indices(self.kinds or (), kinds, "kind of node") if nodes is None else nodes,
                labels=self._encoded_labels(answers),
                edge_weights=self.of_edges.weights,
                edge_feats=self.of_edges.encoded(edge_types, edge_feats, self.edges),
                part=self.part,
            )

    def _encoded_labels(self, answers: Vocabulary | None) -> NDArray[Any]:
        labels = self.label if self.labels is None else self.labels
        if answers is None or labels is None:
            return np.full(self.num_nodes, -1)
        if isinstance(labels, list):
            return _indices(labels, answers, "label")
        if not labels.shape[1]:
            return np.full((len(labels), len(answers.symbols)), np.nan, np.float32)
        if labels.shape[1] != len(answers.symbols):
            raise ValueError(
                f"a label has {pluralize(labels.shape[1], 'number')}; expected "
                f"{len(answers.symbols)}"
            )
        return labels

    def label_mask(self, part: str) -> NDArray[np.bool_]:
        """Return a mask: True for labels that are in `part` ("train", "validation" or "test").

        The mask has an element for each node, or one for a labelled graph. Without masks in the
        file, all elements are True.
        """
        count = 1 if self.labels is None else self.num_nodes
        return self.masks.get(part, np.full(count, not self.masks))


def keep_labels(graph: LabelledGraph, is_kept: NDArray[np.bool_]) -> LabelledGraph:
    """Return the graph with only the labels where `is_kept` is True; mark the others as missing."""
    if graph.labels.ndim == 1:
        return graph._replace(labels=np.where(is_kept, graph.labels, -1))
    return graph._replace(labels=np.where(is_kept[:, None], graph.labels, np.float32(np.nan)))


def _kinds(column: Column, ids: Sequence[Any]) -> list[str] | None:
    """Return the name of the kind (category) of each node; None if nodes have numbers."""
    if isinstance(column, np.ndarray) and column.size and column.dtype.kind != "U":
        return None
    values = as_list(column)
    if all(map(is_empty, values)):
        return [KIND] * len(values)
    if any(row_of_numbers(value) is not None for value in values):
        return None
    for index, value in enumerate(values):
        if not isinstance(value, str) or is_empty(value) or is_broken_row(value):
            raise ValueError(
                f"node {ids[index]!r} has {value!r:.80} in `feat`, which is neither numbers, such "
                'as "0.5, 1", nor the name of a kind: give all nodes numbers, or all nodes a name'
            )
    return ["_".join(value.split()) for value in values]


def _indices(names: Sequence[str | None], table: Vocabulary, what: str) -> NDArray[np.int64]:
    """Return the index of each name among the symbols of a vocabulary, and -1 for None."""
    index_of: dict[str | None, int] = {name: index for index, name in enumerate(table.symbols)}
    index_of[None] = -1
    if unknown := [name for name in names if name not in index_of]:
        symbols = ", ".join(table.symbols)
        raise ValueError(f"the {what} {unknown[0]!r} is unknown; known are {symbols}")
    return np.array([index_of[name] for name in names], np.int64)


def read_labels(column: Column, target: str | None) -> Labels | None:
    """Return the labels of nodes or graphs; None if `target` is None.

    With the target "class" the labels are names; with "labels" (zeros and ones) or "values" they
    are rows of numbers. Raise `ValueError` if a label has another form.
    """
    if target is None:
        return None
    if isinstance(column, np.ndarray) and column.shape[1:] == (1,):
        column = column[:, 0]
    values = as_list(column)
    if target == "class":
        return [_class(value) for value in values]
    pairs = enumerate(values)
    row_of = {index: _numbers(value, target) for index, value in pairs if not is_missing(value)}
    widths = {len(row): index for index, row in row_of.items()}
    if len(widths) > 1:
        last = max(widths.values())
        raise ValueError(
            f"labels have {' and '.join(map(str, sorted(widths)))} numbers (label number {last} "
            f"has {len(row_of[last])}): give all the same"
        )
    rows = np.full((len(values), max(widths, default=0)), np.nan, np.float32)
    if row_of:
        rows[[*row_of]] = [*row_of.values()]
    return rows


def known_labels(labels: Labels | None) -> NDArray[np.bool_]:
    """Return a mask of labels: False for None and for rows of NaN."""
    if isinstance(labels, np.ndarray):
        return np.asarray(np.isfinite(labels).any(1))
    return np.array([label is not None for label in labels or ()], bool)


def _numbers(value: Any, target: str) -> list[float]:
    row = row_of_numbers(value)
    allowed = (0.0, 1.0) if target == "labels" else row or ()
    if row is None or not all(abs(x) < _LARGEST and x in allowed for x in row):
        form = "0 or 1 for each label" if target == "labels" else "finite numbers"
        raise ValueError(f"a label is {value!r}; with target {target!r} it is {form}")
    return row


def _class(value: Any) -> str | None:
    """Return the name of a class, or None if missing; raise `ValueError` for a real number."""
    remedy = ", or pass --target labels or values"
    name, numbers = name_of(value, "a label", remedy), row_of_numbers(value)
    if name and any(isfinite(x) and not x.is_integer() for x in numbers or ()):
        raise ValueError(
            f"a label is {value}, a real number, but the target is a class: pass --target values "
            "to predict numbers, or give each node or graph the name or number of a class"
        )
    return name
