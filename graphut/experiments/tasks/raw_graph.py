"""A graph as read from a user's file, with the names of its kinds and classes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphut._files import reraise_for_file
from graphut.experiments.messages import pluralize
from graphut.experiments.tasks.base import PARTS, LabelledGraph
from graphut.models.checked_config import cut
from graphut.models.graph_columns import (
    MASKS,
    Column,
    Columns,
    ParsedGraph,
    as_list,
    indices_of,
    is_missing,
    number_rows,
    read_mask,
    row_of_numbers,
)
from graphut.vocabulary import Vocabulary

Labels = list[str | None] | NDArray[np.float32]
"""Names of classes, or `(N, K)` numbers; None or NaN where a label is missing; K = 0 if all are."""

MASK_OF = dict(zip(PARTS, MASKS, strict=True))
_SUFFIXES = (".graphml", ".json")
_FORMATS = (
    "a .graphml file, a .json file of networkx.node_link_data, a folder of such files, or a folder "
    "of .npy files, as graphut.experiments.tasks.write_arrays writes them"
)


def find_graph_files(path: str | Path) -> list[Path]:
    """Return the graph files in a folder; if `path` is a graph file, a list with this file."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}: name {_FORMATS}")
    found = sorted(path.iterdir()) if path.is_dir() else [path]
    for suffixes in (_SUFFIXES, (".npy",) if path.is_dir() else ()):
        if files := [file for file in found if file.suffix in suffixes]:
            return files
    raise ValueError(f"{path} holds no graphs that can be read: name {_FORMATS}")


@dataclass(frozen=True)
class RawGraph:
    """A graph as read from a file; node kinds (categories) and classes are names, not indices.

    Its properties raise `ValueError`, with the file, if a column has a wrong form.
    """

    place: str  # the file, for messages
    name: str  # the name of the file, or the number of the graph in it
    columns: Columns  # by the names of the `.npy` files
    target: str | None  # "class" or "values", or None to read no labels
    by_node: bool = True  # whether nodes have labels, and not the graph as a whole

    @cached_property
    def graph(self) -> ParsedGraph:
        """The nodes, and the edges with a self-loop of each node."""
        with reraise_for_file(self.place, ""):
            if not len(self.columns["graphs"]):
                raise ValueError("it holds a graph without nodes")
            return ParsedGraph.of(self.columns)

    @cached_property
    def labels(self) -> Labels:
        """The label of each node, or the one of the graph; an empty list without a target."""
        if self.target is None:
            return []
        missing = [None] * (len(self.columns["graphs"]) if self.by_node else 1)
        with reraise_for_file(self.place, ""):
            return read_labels(self.columns.get(f"{self._prefix}labels", missing), self.target)

    @cached_property
    def masks(self) -> dict[str, NDArray[np.bool_]]:
        """A mask of the labels in each part, such as "train"; empty if the graph has no masks."""
        names = {part: f"{self._prefix}{name}" for part, name in MASK_OF.items()}
        with reraise_for_file(self.place, ""):
            other, owner = ("graph_", "nodes") if self.by_node else ("", "graphs")
            for name in MASK_OF.values():
                if f"{other}{name}" in self.columns:
                    raise ValueError(f"it has {other}{name}, but {owner} have labels")
            masks = {
                part: read_mask(self.columns[name], name)
                for part, name in names.items()
                if name in self.columns
            }
            for one, other in combinations(masks, 2):
                if (both := masks[one] & masks[other]).any():
                    owner = f"{'node' if self.by_node else 'graph'} number {both.argmax()}"
                    raise ValueError(f"{owner} is in {MASK_OF[one]} and in {MASK_OF[other]}")
        return masks

    @property
    def has_label(self) -> NDArray[np.bool_]:
        """A mask with an element for each node, or one for a labelled graph: True if labelled."""
        if isinstance(self.labels, np.ndarray):
            return np.asarray(np.isfinite(self.labels).any(1))
        return np.array([label is not None for label in self.labels], bool)

    def label_mask(self, part: str) -> NDArray[np.bool_]:
        """Return a mask of the labels in `part`, such as "train"; without masks, of all labels."""
        return self.masks.get(part, np.full(len(self.labels), not self.masks))

    def labelled(
        self, kinds: Sequence[str] | int, answers: Vocabulary | None, *sizes: Any
    ) -> LabelledGraph:
        """Return the graph with indices for the names of node kinds and classes.

        `answers` is the vocabulary of classes; if it is None, all labels are missing. `kinds` and
        `sizes` are the arguments of `ParsedGraph.encoded`. Raise `ValueError` for a name that is
        unknown, or a wrong number of features.
        """
        graph = self.graph
        with reraise_for_file(self.place, ""):
            arrays = graph.encoded(kinds, *sizes)._asdict()
            return LabelledGraph(labels=self._encoded_labels(answers), ids=graph.ids, **arrays)

    def _encoded_labels(self, answers: Vocabulary | None) -> NDArray[Any]:
        if answers is None:
            return np.full(len(self.graph.ids), -1)
        labels, count = self.labels, len(answers.symbols)
        if isinstance(labels, list):
            return indices_of(labels, answers.symbols, "label")
        if labels.shape[1] not in (0, count):
            raise ValueError(
                f"a label has {pluralize(labels.shape[1], 'number')}; expected {count}"
            )
        return labels if labels.shape[1] else np.full((len(labels), count), np.nan, np.float32)

    @property
    def ignored(self) -> str:
        """Words about attributes or files that are not read; empty if there are none."""
        names = ", ".join(self.columns.get("ignored", ()))
        return f"; ignored: {cut(names, 200)}" if names else ""

    @property
    def _prefix(self) -> str:
        return "" if self.by_node else "graph_"


def keep_labels(graph: LabelledGraph, is_kept: NDArray[np.bool_]) -> LabelledGraph:
    """Return the graph with only the labels where `is_kept` is True; mark the others as missing."""
    if graph.labels.ndim == 1:
        return graph._replace(labels=np.where(is_kept, graph.labels, -1))
    return graph._replace(labels=np.where(is_kept[:, None], graph.labels, np.float32(np.nan)))


def read_labels(column: Column, target: str) -> Labels:
    """Return the labels of nodes or graphs: names of classes, or for "values" rows of numbers.

    Raise `ValueError` if a label has another form.
    """
    if isinstance(column, np.ndarray) and column.shape[1:] == (1,):
        column = column[:, 0]
    values = as_list(column)
    if target == "class":
        return [*map(_class, values)]
    known = [index for index, value in enumerate(values) if not is_missing(value)]
    if names := [values[k] for k in known if row_of_numbers(values[k]) is None]:
        raise ValueError(f"a label is {names[0]!r:.80}, no number: pass --target class")
    rows = number_rows([values[k] for k in known], "label", lambda k: f"number {known[k]}")
    labels = np.full((len(values), 0 if rows is None else rows.shape[1]), np.nan, np.float32)
    labels[known] = labels[:0] if rows is None else rows
    return labels


def _class(value: Any) -> str | None:
    """Return the name of a class, such as "3" for 3.0, without spaces; None for "", -1 or NaN.

    Raise `ValueError` for a real number.
    """
    if isinstance(value, list | dict):
        raise ValueError(
            f"a label must be one name or number, or pass --target values; got {value!r:.80}"
        )
    name = "" if is_missing(value) else "_".join(str(value).split())
    # pandas writes integers as real numbers if some are missing.
    name = re.sub(r"^(-?\d+)\.0$", r"\1", name)
    if name in ("", "-1"):
        return None
    if any(isfinite(x) and not x.is_integer() for x in row_of_numbers(value) or ()):
        raise ValueError(
            f"a label is {value}, a real number, but the target is a class: pass --target values "
            "to predict numbers, or give each node or graph the name or number of a class"
        )
    return name
