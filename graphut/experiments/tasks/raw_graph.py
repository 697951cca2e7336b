"""A graph as read from a user's file."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graphut._files import reraise_for_file
from graphut.experiments.messages import pluralize
from graphut.experiments.tasks.base import PARTS, LabelledGraph
from graphut.experiments.tasks.graph_targets import Labels
from graphut.experiments.tasks.vocabulary import Vocabulary

if TYPE_CHECKING:
    from graphut.models.graph_inputs import EdgeAttributes

KIND = "node"
"""The kind of all nodes of a graph without features."""
MASKS = dict(zip(PARTS, ("train_mask", "val_mask", "test_mask"), strict=True))
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
    edges: NDArray[np.int64]  # (2, E), with a self-loop at each node
    kinds: list[str] | None  # of each node, unless nodes have features
    features: list[list[float]] | NDArray[Any]  # of each node
    labels: Labels | None  # of each node
    label: Labels | None  # of the graph: one label
    masks: dict[str, NDArray[np.bool_]]  # by part, the nodes of that part, or whether it is in it
    of_edges: EdgeAttributes
    unused: frozenset[str]  # the names of attributes that are not read
    ids: list[Hashable]  # of each node, as in the file
    name: str  # the name of the file, or the id of the graph in it
    part: Any = None  # the `graphut.distributed.Part` of this process, if the graph is divided
    unused_numbers: frozenset[str] = frozenset()  # unused and numeric, if no node has `feat`

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return len(self.ids)

    @property
    def has_labels(self) -> bool:
        """True if at least one node, or the graph, has a label."""
        labels = self.label if self.labels is None else self.labels
        if isinstance(labels, np.ndarray):
            return not bool(np.isnan(labels).all())
        return has_some(labels or ())

    @property
    def num_feats(self) -> int:
        """The number of features of the first node; 0 if nodes have kinds (categories)."""
        return 0 if self.kinds else len(self.features[0])

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
            if bool(self.kinds) != bool(kinds.symbols):
                has, known = "features in `feat`", "kinds"
                if self.kinds:
                    has, known = "kinds in `feat`, or nothing", f"{num_feats} features"
                raise ValueError(
                    f"its nodes have {has}, but those of the other graphs or of the model have "
                    f"{known}"
                )
            return LabelledGraph(
                edges=self.edges,
                nodes=_indices(self.kinds, kinds, "kind of node")
                if self.kinds
                else self._feature_rows(num_feats),
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

    def _feature_rows(self, num_feats: int) -> NDArray[np.float32]:
        from graphut.models.graph_inputs import feature_rows

        for node, row in zip(self.ids, self.features, strict=True):
            if len(row) != num_feats:
                raise ValueError(
                    f"node {node!r} has {pluralize(len(row), 'number')} in `feat`; expected "
                    f"{num_feats}"
                )
        return feature_rows(np.asarray(self.features), self.ids)


def keep_labels(graph: LabelledGraph, asked: NDArray[np.bool_]) -> LabelledGraph:
    """Return the graph with only the labels where `asked` is True; mark the others as missing."""
    if graph.labels.ndim == 1:
        return graph._replace(labels=np.where(asked, graph.labels, -1))
    return graph._replace(labels=np.where(asked[:, None], graph.labels, np.float32(np.nan)))


def check_masks(masks: Mapping[str, NDArray[np.bool_]], ids: Sequence[Hashable] | None) -> None:
    """Raise `ValueError` if two of the masks (training, validation, test) share a node or graph.

    `ids` are the ids of the nodes for the message; None if the masks are for a whole graph.
    """
    for (one, first), (other, second) in combinations(masks.items(), 2):
        if (both := first & second).any():
            what = "the graph" if ids is None else f"node {ids[int(both.argmax())]!r}"
            raise ValueError(f"{what} is in {MASKS[one]} and in {MASKS[other]}")


def has_some(values: Iterable[Any]) -> bool:
    """Return whether at least one of the values is not None."""
    return any(value is not None for value in values)


def _indices(names: Sequence[str | None], known: Vocabulary, what: str) -> NDArray[np.int64]:
    """Return the index of each name among the symbols of a vocabulary, and -1 for None."""
    index_of: dict[str | None, int] = {name: i for i, name in enumerate(known.symbols)}
    index_of[None] = -1
    for name in names:
        if name not in index_of:
            raise ValueError(
                f"the {what} {name!r} is unknown; known are {', '.join(known.symbols)}"
            )
    return np.array([index_of[name] for name in names], np.int64)
