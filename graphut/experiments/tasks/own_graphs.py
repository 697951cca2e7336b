"""Prediction of labels of nodes or graphs, which are read from a user's files."""

from dataclasses import MISSING, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.messages import pluralize
from graphut.experiments.tasks.base import PARTS, GraphTask, LabelledGraph
from graphut.experiments.tasks.presets import OWN_GRAPHS
from graphut.experiments.tasks.raw_graph import MASK_OF, RawGraph, keep_labels
from graphut.models.checked_config import option
from graphut.vocabulary import Vocabulary

_FEWEST = 10  # with fewer graphs, nodes are split instead


@dataclass(frozen=True)
class Graphs(GraphTask):
    """Predict classes or values of the nodes or graphs in a user's files.

    `read_graphs` describes the files. If the files have no masks that define the split, a random
    tenth of the graphs is held out for validation and another tenth for the test. With fewer than
    ten graphs, the labelled nodes are split in the same way.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import networkx
    >>> graph = networkx.karate_club_graph()
    >>> for *_, data in graph.edges(data=True):
    ...     del data["weight"]
    >>> for node, data in graph.nodes(data=True):
    ...     data["label"] = data["club"]
    >>> with TemporaryDirectory() as folder:
    ...     networkx.write_graphml(graph, Path(folder, "karate.graphml"))
    ...     task = Graphs(folder)
    ...     print(task.answers.symbols, [int(task.load(p)[0].has_label.sum()) for p in PARTS])
    ('Mr._Hi', 'Officer') [28, 3, 3]
    """

    name = "graphs"
    presets = OWN_GRAPHS

    data: str | Path = option(MISSING, "file or folder of graphs: GraphML, node-link JSON, npy")
    target: Literal["class", "values"] = option(
        "class", "what a label is: a class, or one or more real numbers"
    )

    @property
    def answer_at(self) -> str:
        return "node" if self._files[0].by_node else "graph"

    @property
    def num_feats(self) -> int:
        """The number of features of a node; 0 if each node has a kind (a category) instead."""
        return self._files[0].graph.num_feats

    @cached_property
    def node_kinds(self) -> Vocabulary:
        if self.num_feats:
            return Vocabulary([])
        kinds = (file.graph.nodes for file in self._files if not file.graph.num_feats)
        return Vocabulary(sorted({*chain.from_iterable(kinds)}))

    @cached_property
    def answers(self) -> Vocabulary:
        """The vocabulary of classes; for values, "0", "1", ... for the numbers of a label."""
        if self.target == "values":
            widths = (file.labels.shape[1] for file in self._files)  # type: ignore[union-attr]
            return Vocabulary(map(str, range(max(widths))))
        labels = chain.from_iterable(file.labels for file in self._files)
        names = sorted({label for label in labels if label is not None})
        if len(names) < 2:
            raise ValueError(
                f"all labels in {self.data} are {names[0]!r}: give two classes or more"
            )
        return Vocabulary(names)

    @property
    def model_sizes(self) -> dict[str, Any]:
        others = {"num_feats": self.num_feats, "answer_kind": self.target}
        return {**super().model_sizes, **others}

    @property
    def choices(self) -> tuple[str, ...]:
        if self.target == "values":
            return ("mae", "r2")
        return ("accuracy", "auc", "log_probability")

    @property
    def edge_feats(self) -> int:
        feats = (file.graph.feats for file in self._files)
        return next((rows.shape[1] for rows in feats if rows is not None and rows.shape[1]), 0)

    def load(self, part: str) -> list[LabelledGraph]:
        """Return the graphs that have labels in `part`, such as "train", without other labels."""
        return [graph for graph in self._parts[part] if graph.has_label.any()]

    @property
    def description(self) -> str:
        """One line about the graphs, their labels, and what may be wrong with them."""
        files, at = self._files, self.answer_at
        labelled = [sum(int(graph.has_label.sum()) for graph in self.load(part)) for part in PARTS]
        unlabelled = sum(int((~file.has_label).sum()) for file in files)
        nodes = sum(len(file.graph.ids) for file in files)
        edges = sum(file.graph.edges.shape[1] for file in files)
        kinds, classes = len(self.node_kinds.symbols), len(self.answers.symbols)
        names = ("class", "classes") if self.target == "class" else ("value", "values")
        facts = {
            pluralize(len(files), "graph"): True,
            pluralize(nodes, "node"): True,
            f"{pluralize(edges, 'edge')} with self-loops": True,
            pluralize(self.num_feats, "feature"): self.num_feats,
            pluralize(kinds, "kind of nodes", "kinds of nodes"): not self.num_feats,
            "no `feat`": not any("features" in file.columns for file in files),
            pluralize(self.edge_feats, "edge feature"): self.edge_feats,
            "edge weights": any(file.graph.weights is not None for file in files),
            pluralize(classes, *names): True,
            f"{'/'.join(map(str, labelled))} {at}s for training/validation/test": True,
            f"{pluralize(unlabelled, at)} without a label": unlabelled,
        }
        said = f"read {', '.join(fact for fact, is_said in facts.items() if is_said)}"
        said += files[0].ignored
        links = [edges[:, edges[0] != edges[1]] for edges in (file.graph.edges for file in files)]
        if sum(map(np.size, links)) and not any(map(_has_reverse, links)):
            said += (
                "; hint: no edge has its reverse, so nodes read only the sources of their in-edges:"
                " if edges have no direction, write each of them in both, or use an undirected "
                "graph of networkx"
            )
        return said

    @cached_property
    def _files(self) -> list[RawGraph]:
        from graphut.experiments.tasks.graph_files import read_graphs  # and torch with it

        return read_graphs(self.data, self.target)

    @cached_property
    def _parts(self) -> dict[str, list[LabelledGraph]]:
        """The graphs of each part; labels that are not in the part are missing."""
        feats = self.num_feats, self.edge_feats
        graphs = [
            file.labelled(self.node_kinds.symbols, self.answers, *feats) for file in self._files
        ]
        masks = self._masks()
        parts = {part: [*map(keep_labels, graphs, masks[part])] for part in PARTS}
        empty = [MASK_OF[part] for part in PARTS if not any(g.has_label.any() for g in parts[part])]
        if empty:
            raise ValueError(
                f"{self.data} has no labelled node or graph in {' and '.join(empty)}: give all of "
                f"{', '.join(MASK_OF.values())}, or leave out the masks for a random split"
            )
        return parts

    def _masks(self) -> dict[str, list[NDArray[np.bool_]]]:
        """Return the mask of each graph's labels, by part: of the files, or a random split.

        A tenth each is for validation and test: of the graphs with a label, or of the labelled
        nodes if there are few graphs.
        """
        files = self._files
        if any(file.masks for file in files):  # then a graph without masks is in no part
            return {part: [f.label_mask(part) & bool(f.masks) for f in files] for part in PARTS}
        graph_of = np.repeat(np.arange(len(files)), [len(file.labels) for file in files])
        is_by_node = self.answer_at == "node" and len(files) < _FEWEST
        item_of = np.arange(len(graph_of)) if is_by_node else graph_of  # of each label
        items = np.unique(item_of[np.concatenate([file.has_label for file in files])])
        if len(items) < 3:
            raise ValueError(
                f"{self.data} has {len(items)} labelled nodes or graphs: too few to split into "
                "training, validation and test"
            )
        order, tenth = np.random.default_rng(0).permutation(items), max(1, len(items) // 10)
        chosen = np.split(order, [len(items) - 2 * tenth, len(items) - tenth])
        ends = np.bincount(graph_of, minlength=len(files)).cumsum()[:-1]
        return {
            part: np.split(np.isin(item_of, own), ends)
            for part, own in zip(PARTS, chosen, strict=True)
        }


def _has_reverse(edges: NDArray[np.int64]) -> bool:
    """Return whether the `(2, E)` edges of a graph include one together with its reverse."""
    (source, target), size = edges, edges.max(initial=0) + 1
    return bool(np.isin(source * size + target, target * size + source).any())
