"""Prediction of labels of nodes or graphs, which are read from a user's files."""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphut._files import reraise_for_file
from graphut.experiments.messages import pluralize
from graphut.experiments.tasks.base import PARTS, GraphTask, LabelledGraph
from graphut.experiments.tasks.presets import OWN_GRAPHS
from graphut.experiments.tasks.raw_graph import MASK_OF, RawGraph, find_graph_files, keep_labels
from graphut.models.checked_config import option
from graphut.models.config import ModelConfig
from graphut.models.graph_columns import ONE_WAY, is_one_way, row_of_numbers
from graphut.vocabulary import Vocabulary

_FEWEST = 10  # with fewer graphs, nodes are split instead; and with fewer names, all may differ


@dataclass(frozen=True)
class Graphs(GraphTask):
    """Predict classes, labels or values of the nodes or graphs in a user's files.

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
    own_files = ("data",)
    presets = OWN_GRAPHS

    data: str | Path = option(MISSING, "file or folder of graphs: GraphML, node-link JSON, npy")
    target: Literal["class", "labels", "values"] = option(
        "class", "what a label is: a class; zeros and ones, for several labels; or real numbers"
    )
    class_weights: str = option(
        "", "weights of the classes in the loss, such as 1,5, or balanced; '' for equal weights"
    )

    @property
    def answer_at(self) -> Literal["node", "edge", "graph"]:
        return "node" if self._files[0].by_node else "graph"

    @property
    def num_feats(self) -> int:
        return self._files[0].graph.num_feats

    @cached_property
    def node_kinds(self) -> Vocabulary:
        if self.num_feats:
            return Vocabulary([])
        if self._facts:
            return Vocabulary(self._facts["kinds"])
        kinds = (file.graph.nodes for file in self._files if not file.graph.num_feats)
        return Vocabulary(sorted({*chain.from_iterable(kinds)}))

    @cached_property
    def answers(self) -> Vocabulary:
        """The vocabulary of classes; for other targets, "0", "1", ... for numbers of a label."""
        if self._facts:
            return Vocabulary(self._facts["answers"])
        if self.target != "class":
            widths = (file.labels.shape[1] for file in self._files)  # type: ignore[union-attr]
            return Vocabulary(map(str, range(max(widths))))
        labels = chain.from_iterable(file.labels for file in self._files)
        with reraise_for_file(self.data, "has a label that cannot be the name of a class"):
            classes = Vocabulary(sorted({label for label in labels if label is not None}))
        if len(classes.symbols) == 1:
            raise ValueError(
                f"{self.data} has only the class {classes.symbols[0]!r}: give labels of two or "
                "more classes (an empty label and -1 are no classes)"
            )
        return classes

    @property
    def choices(self) -> tuple[str, ...]:
        if self.target == "values":
            return ("mae", "r2")
        return ("accuracy", "macro_f1", "auc", "log_probability")

    @property
    def edge_feats(self) -> int:
        widths = (file.graph.num_edge_feats for file in self._files)
        return next(filter(None, widths), 0) + len(self.edge_types)

    @cached_property
    def edge_types(self) -> list[str]:
        if self._facts:
            return list(self._facts["edge_types"])
        names = chain.from_iterable(file.graph.types or () for file in self._files)
        return sorted({name for name in names if name is not None})

    @property
    def edge_weights(self) -> bool:
        return any(file.graph.weights is not None for file in self._files)

    @property
    def unchecked_files(self) -> dict[str, Path]:
        """A dictionary from `data/NAME`, or `data` for a divided graph, to the user's files."""
        if self._facts:
            return {"data": Path(self.data, "parts.json")}
        return {f"data/{file.name}": file for file in find_graph_files(self.data)}

    def check_files(self) -> None:
        if not Path(self.data).exists():
            find_graph_files(self.data)  # says what to name

    def load(self, part: str) -> list[LabelledGraph]:
        """Return the graphs that have labels in `part`, such as "train", without other labels."""
        graphs = [g for g in self._parts[part] if g.has_label.any() or g.part is not None]
        if not self.class_weights or part != "train":
            return graphs
        known = np.concatenate([graph.labels[graph.has_label] for graph in graphs])
        weights = class_weights(known, self.class_weights, self.answers.symbols)
        ends = np.cumsum([graph.has_label.sum() for graph in graphs])[:-1]
        return [*map(_with_weights, graphs, np.split(weights, ends))]

    @property
    def description(self) -> str:
        """One line about the graphs, their labels, and what may be wrong with them."""
        files, at, edge_feats = self._files, self.answer_at, self.edge_feats
        labelled = [sum(int(graph.has_label.sum()) for graph in self.load(part)) for part in PARTS]
        unlabelled = sum(int((~file.has_label).sum()) for file in files)
        kinds, answers = len(self.node_kinds.symbols), len(self.answers.symbols)
        nodes = sum(len(file.graph.ids) for file in files)
        edges = sum(file.graph.edges.shape[1] for file in files)
        nouns = {"class": ("class", "classes"), "labels": ("label",), "values": ("value",)}
        facts = {
            "the first part of a graph" if self._facts else pluralize(len(files), "graph"): True,
            pluralize(nodes, "node"): True,
            f"{pluralize(edges, 'edge')} with self-loops": True,
            pluralize(self.num_feats, "feature"): self.num_feats,
            pluralize(kinds, "kind of nodes", "kinds of nodes"): not self.num_feats,
            pluralize(edge_feats, "edge feature"): edge_feats,
            "edge weights": self.edge_weights,
            pluralize(answers, *nouns[self.target]): True,
            f"{'/'.join(map(str, labelled))} {at}s for training/validation/test": True,
            f"{pluralize(unlabelled, at)} without a label": unlabelled,
        }
        hints = [f"read {', '.join(fact for fact, is_said in facts.items() if is_said)}"]
        if unused := sorted(set().union(*(file.unused for file in files))):
            remedy = "" if self.num_feats else " (give nodes numbers as a text in `feat`)"
            hints.append(f"not used: {', '.join(unused)}{remedy}")
        classes = answers if self.target == "class" else 0
        for name, names, count in (("label", classes, sum(labelled)), ("feat", kinds, nodes)):
            if _FEWEST <= names > count / 2:
                hints.append(
                    f"warning: `{name}` has {names} values for {pluralize(count, 'place')}, as if "
                    "it were a name (Gephi writes names as labels): put the class or the kind there"
                )
        if is_one_way(file.graph.edges for file in files if file.part is None):
            hints.append(f"hint: {ONE_WAY}")
        return "; ".join(hints)

    def check_config(self, config: ModelConfig) -> None:
        """Check that layer and topology support the edges, and parts have no class weights."""
        layer = getattr(config, "layer", "attention")
        if self._facts and self.class_weights:
            raise ValueError(f"class_weights must be '' for parts, got {self.class_weights!r}")
        weighted = [file.place for file in self._files if file.graph.weights is not None]
        if weighted and layer != "attention":
            raise ValueError(
                f"{weighted[0]} has edge weights, which need --layer attention, not {layer}"
            )
        topology = getattr(config, "topology", "")
        if topology and (weighted or self.edge_feats):
            raise ValueError(
                f"{self.data} has weights, features or types of edges, which the edges of "
                f"--topology {topology} lack: leave out --topology, or these attributes"
            )

    @cached_property
    def _facts(self) -> dict[str, Any]:
        """The names of kinds, classes and edge types in a divided graph; `{}` for other graphs."""
        from graphut.distributed.parts import is_divided, read_facts

        return read_facts(self.data) if is_divided(self.data) else {}

    def divide(self, folder: str | Path, parts: int, method: str = "metis") -> Path:
        """Divide the graph into `parts` parts, one for each training process; return the folder."""
        from graphut.experiments.tasks.graph_files import write_graph_parts

        if len(self._files) > 1 or self._facts:
            raise ValueError(f"{self.data} must hold one whole graph to be cut into parts")
        masks = {name: self._parts[name][0].has_label for name in PARTS}
        names = {"kinds": self.node_kinds.symbols, "answers": self.answers.symbols}
        facts = {name: [*symbols] for name, symbols in names.items()}
        return write_graph_parts(
            self._files[0], masks, folder, parts, method, **facts, edge_types=self.edge_types
        )

    @cached_property
    def _files(self) -> list[RawGraph]:
        from graphut.experiments.tasks.graph_files import read_graphs

        return read_graphs(self.data, self.target)

    @cached_property
    def _parts(self) -> dict[str, list[LabelledGraph]]:
        files, kinds, classes = self._files, self.node_kinds, self.answers
        feats = self.num_feats, self.edge_types, self.edge_feats
        graphs = [file.labelled(kinds.symbols, classes, *feats) for file in files]
        if any(file.masks for file in files):
            masks = {part: [file.label_mask(part) for file in files] for part in PARTS}
        elif self.answer_at == "node" and len(graphs) < _FEWEST:
            sizes = [len(graph.labels) for graph in graphs]
            has_label = np.concatenate([graph.has_label for graph in graphs])
            masks = {
                part: np.split(np.isin(np.arange(len(has_label)), chosen), np.cumsum(sizes)[:-1])
                for part, chosen in _tenths(np.flatnonzero(has_label), self.data).items()
            }
        else:
            usable = [self.answer_at == "node" or bool(g.has_label.any()) for g in graphs]
            chosen = _tenths(np.flatnonzero(usable), self.data)
            return {part: [graphs[index] for index in chosen[part]] for part in PARTS}
        parts = {part: [*map(keep_labels, graphs, masks[part])] for part in PARTS}
        empty = [MASK_OF[part] for part in PARTS if not any(g.has_label.any() for g in parts[part])]
        if empty and not self._facts:
            raise ValueError(
                f"{self.data} has no labelled node or graph in {' and '.join(empty)}: give all of "
                f"{', '.join(MASK_OF.values())}, or leave out the masks for a random split"
            )
        return parts


def _with_weights(graph: LabelledGraph, weights: NDArray[np.float32]) -> LabelledGraph:
    """Return the graph with loss weights: `weights` for its known labels, and 0 for the others."""
    every = np.zeros(graph.labels.shape, np.float32)
    every[graph.has_label] = weights
    return graph._replace(label_weights=every)


def _tenths(items: NDArray[np.int64], data: str | Path) -> dict[str, NDArray[np.int64]]:
    """Split items at random: a tenth each for validation and test, the rest for training."""
    if len(items) < 3:
        raise ValueError(
            f"{data} has {len(items)} labelled nodes or graphs: too few to split into training, "
            "validation and test"
        )
    order, tenth = np.random.default_rng(0).permutation(items), max(1, len(items) // 10)
    parts = np.split(order, [len(items) - 2 * tenth, len(items) - tenth])
    return {part: np.sort(chosen) for part, chosen in zip(PARTS, parts, strict=True)}


def class_weights(labels: NDArray[Any], text: str, names: Sequence[str]) -> NDArray[np.float32]:
    """Return the weight of each training label in the loss, with a mean of 1 over the labels.

    `labels` are `(N,)` classes, or `(N, K)` zeros and ones. The `text` is "balanced", which gives
    all classes the same total weight, or has a weight for each of the `names`, such as "1,5".
    """
    if text != "balanced":
        factors = row_of_numbers(text)
        if labels.ndim > 1:
            raise ValueError(f"class_weights must be 'balanced' for several labels; got {text!r}")
        if (
            factors is None
            or len(factors) != len(names)
            or not all(0 < x < np.inf for x in factors)
        ):
            raise ValueError(
                f"class_weights must be 'balanced', or a positive number for each of "
                f"{', '.join(names)}; got {text!r}"
            )
        weights = np.array(factors)[labels]
    elif labels.ndim == 1:
        weights = 1 / np.bincount(labels, minlength=len(names))[labels]
    else:
        ones = labels.sum(0)
        weights = np.where(
            labels == 1, 1 / np.maximum(ones, 1), 1 / np.maximum(len(labels) - ones, 1)
        )
    return (weights / weights.mean(0)).astype(np.float32)
