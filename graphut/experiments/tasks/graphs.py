"""Labelled graphs from files of the user."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from graphut._files import reraise_for_file
from graphut.experiments.tasks.base import PARTS, GraphTask, LabelledGraph
from graphut.experiments.tasks.graph_files import GraphFile, asking, graph_files, read_graphs
from graphut.experiments.tasks.presets import NARROW_OWN_GRAPH_LAYERS, OWN_GRAPHS, with_baselines
from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.models.checked_config import option

_FEWEST = 10  # with fewer graphs, nodes are split instead


@dataclass(frozen=True)
class Graphs(GraphTask):
    """Classification of nodes or graphs, from files of the user.

    `read_graphs` describes the files. Without masks, a random tenth of the graphs is held out for
    validation and another tenth for the test. With fewer than ten graphs, the labelled nodes are
    split in the same way.

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
    ...     print(task.answers.symbols, [int((task.load(p)[0].labels >= 0).sum()) for p in PARTS])
    ('Mr._Hi', 'Officer') [28, 3, 3]
    """

    name = "graphs"
    own_files = ("data",)
    presets = with_baselines(OWN_GRAPHS, NARROW_OWN_GRAPH_LAYERS)

    data: str | Path = option(MISSING, "file or folder of graphs: GraphML, node-link JSON, CSV")

    @property
    def answer_at(self) -> Literal["node", "edge", "graph"]:
        """Whether nodes or graphs have labels."""
        return "graph" if self._files[0].labels is None else "node"

    @property
    def num_feats(self) -> int:
        """The number of features of a node."""
        return self._files[0].num_feats

    @cached_property
    def node_kinds(self) -> Vocabulary:
        """The kinds of nodes; empty if nodes have features."""
        if self.num_feats:
            return Vocabulary([])
        return Vocabulary(sorted({kind for graph in self._files for kind in graph.kinds or ()}))

    @cached_property
    def answers(self) -> Vocabulary:
        """The vocabulary of the classes."""
        labels = chain.from_iterable(graph.labels or [graph.label] for graph in self._files)
        with reraise_for_file(self.data, "has a label that cannot be the name of a class"):
            return Vocabulary(sorted({label for label in labels if label is not None}))

    @property
    def unchecked_files(self) -> dict[str, Path]:
        """The paths of the user's files, which have no known checksum, by `data/NAME`."""
        return {f"data/{file.name}": file for file in graph_files(self.data)}

    def load(self, part: str) -> list[LabelledGraph]:
        """Return the graphs with a label in "train", "validation" or "test"."""
        return [graph for graph in self._parts[part] if (graph.labels >= 0).any()]

    @cached_property
    def _files(self) -> list[GraphFile]:
        return read_graphs(self.data)

    @cached_property
    def _parts(self) -> dict[str, list[LabelledGraph]]:
        files, known = self._files, (self.node_kinds, self.answers, self.num_feats)
        graphs = [file.labelled(*known) for file in files]
        if self.answer_at == "node" and any(file.masks for file in files):
            asked = {part: [file.asked_in(part) for file in files] for part in PARTS}
        elif self.answer_at == "node" and len(graphs) < _FEWEST:
            sizes = [len(graph.labels) for graph in graphs]
            labels = np.concatenate([graph.labels for graph in graphs])
            asked = {
                part: np.split(np.isin(np.arange(len(labels)), chosen), np.cumsum(sizes)[:-1])
                for part, chosen in _tenths(np.flatnonzero(labels >= 0), self.data).items()
            }
        else:
            chosen = _tenths(np.arange(len(graphs)), self.data)
            return {part: [graphs[index] for index in chosen[part]] for part in PARTS}
        return {part: [*map(asking, graphs, asked[part])] for part in PARTS}


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
