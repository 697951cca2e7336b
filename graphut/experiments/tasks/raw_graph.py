"""A graph as read from a user's file, with the names of its kinds, classes and edge types."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
from graphut.models.graph_columns import (
    MASKS,
    Column,
    ParsedGraph,
    as_list,
    indices_of,
    is_missing,
    name_of,
    read_mask,
    row_of_numbers,
)
from graphut.vocabulary import Vocabulary

Labels = list[str | None] | NDArray[np.float32]
"""Names of classes, or `(N, K)` numbers; None or NaN where a label is missing; K = 0 if all are."""

MASK_OF = dict(zip(PARTS, MASKS, strict=True))
_LARGEST = 1e30  # of a label, finite in float32
_SUFFIXES = (".graphml", ".json")
FORMATS = (
    "a .graphml file, a .json file of networkx.node_link_data, a folder of such files, or a folder "
    "of .npy files, as graphut.experiments.tasks.write_arrays writes them"
)


def find_graph_files(path: str | Path) -> list[Path]:
    """Return the graph files in a folder; if `path` is a graph file, a list with this file."""
    path = Path(path)
    if path.is_dir():
        for suffixes in (_SUFFIXES, (".npy",)):
            if files := sorted(file for file in path.iterdir() if file.suffix in suffixes):
                return files
    elif not path.exists():
        raise FileNotFoundError(f"there is no {path}: name {FORMATS}")
    elif path.suffix in _SUFFIXES:
        return [path]
    raise ValueError(f"{path} holds no graphs that can be read: name {FORMATS}")


@dataclass(frozen=True)
class RawGraph:
    """A graph as read from a file; node kinds (categories) and classes are names, not indices."""

    place: str  # the file, for messages
    name: str  # the name of the file, or the number of the graph in it
    graph: ParsedGraph
    by_node: bool  # whether nodes have labels, and not the graph as a whole
    labels: Labels  # of each node, or one label of the graph
    masks: Mapping[str, NDArray[np.bool_]]  # by part, which of the labels are in it
    unused: Collection[str] = ()  # the names of attributes that are not read
    part: Any = None  # the `graphut.distributed.Part` of this process, if the graph is divided

    @classmethod
    def of(
        cls,
        place: str,
        name: str,
        columns: Mapping[str, Any],
        labels: Labels,
        by_node: bool,
        part: Any = None,
    ) -> RawGraph:
        """Convert the columns of a graph, whose labels have been read."""
        if not len(columns["graphs"]):
            raise ValueError(f"{place} holds a graph without nodes")
        with reraise_for_file(place, ""):
            prefix, other = ("", "graph_") if by_node else ("graph_", "")
            if any(other + name in columns and prefix + name not in columns for name in MASKS):
                kinds = ("nodes", "graphs") if by_node else ("graphs", "nodes")
                raise ValueError("it has labels of {}, but masks of {}".format(*kinds))
            masks = {
                part: read_mask(columns[prefix + name], name)
                for part, name in MASK_OF.items()
                if prefix + name in columns
            }
            for (one, first), (two, second) in combinations(masks.items(), 2):
                if (both := first & second).any():
                    owner = f"{'node' if by_node else 'graph'} number {both.argmax()}"
                    raise ValueError(f"{owner} is in {MASK_OF[one]} and in {MASK_OF[two]}")
            graph = ParsedGraph.of(columns)
        return cls(place, name, graph, by_node, labels, masks, columns.get("unused", ()), part)

    @property
    def has_label(self) -> NDArray[np.bool_]:
        """A mask with an element for each node, or one for a labelled graph: True if labelled."""
        return known_labels(self.labels)

    def labelled(
        self, kinds: Sequence[str] | int, answers: Vocabulary | None, *sizes: Any
    ) -> LabelledGraph:
        """Return the graph with indices for the names of node kinds, classes and edge types.

        `answers` is the vocabulary of classes; if it is None, all labels are missing. `kinds` and
        `sizes` are the arguments of `ParsedGraph.encoded`. Raise `ValueError` for a name that is
        unknown, or a wrong number of features.
        """
        with reraise_for_file(self.place, ""):
            arrays = self.graph.encoded(kinds, *sizes)._replace(part=self.part)
            labels, ids = self._encoded_labels(answers), self.graph.ids
            return LabelledGraph(labels=labels, ids=ids, **arrays._asdict())

    def _encoded_labels(self, answers: Vocabulary | None) -> NDArray[Any]:
        labels = self.labels
        if answers is None:
            return np.full(len(self.graph.ids), -1)
        if isinstance(labels, list):
            return indices_of(labels, answers.symbols, "label")
        count = len(answers.symbols)
        if not labels.shape[1]:
            return np.full((len(labels), count), np.nan, np.float32)
        if labels.shape[1] != count:
            numbers = pluralize(labels.shape[1], "number")
            raise ValueError(f"a label has {numbers}; expected {count}")
        return labels

    def label_mask(self, part: str) -> NDArray[np.bool_]:
        """Return a mask of the labels in `part`, such as "train"; without masks, of all labels."""
        return self.masks.get(part, np.full(len(self.labels), not self.masks))


def keep_labels(graph: LabelledGraph, is_kept: NDArray[np.bool_]) -> LabelledGraph:
    """Return the graph with only the labels where `is_kept` is True; mark the others as missing."""
    if graph.labels.ndim == 1:
        return graph._replace(labels=np.where(is_kept, graph.labels, -1))
    return graph._replace(labels=np.where(is_kept[:, None], graph.labels, np.float32(np.nan)))


def read_labels(column: Column, target: str) -> Labels:
    """Return the labels of nodes or graphs.

    With the target "class" the labels are names; with "labels" (zeros and ones) or "values" they
    are rows of numbers. Raise `ValueError` if a label has another form.
    """
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


def known_labels(labels: Labels) -> NDArray[np.bool_]:
    """Return a mask of labels: False for None and for rows of NaN."""
    if isinstance(labels, np.ndarray):
        return np.asarray(np.isfinite(labels).any(1))
    return np.array([label is not None for label in labels], bool)


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
