"""Maximal independent sets, in graphs of the benchmark SALSA-CLRS (arXiv 2309.12253).

graphut train examples/tasks/mis.py --preset salsa-clrs --out runs/mis
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.graph_problems import GraphProblem, Solution
from graphut.experiments.tasks.presets import (
    GRAPH_PROBLEM,
    QUANTIZED,
    SALSA_GRAPHS,
    WAKING_GRAPHS,
)
from graphut.experiments.tasks.random_graphs import GraphUnion

# From noisy states, a model learns to find the answer whatever was known before.
SALSA_CLRS = WAKING_GRAPHS | SALSA_GRAPHS | QUANTIZED
SALSA_CLRS |= {"max_steps": 12, "initial_noise": 1.0, "epochs": 5}


@dataclass(frozen=True)
class GraphMIS(GraphProblem):
    """Predict for each node whether it is in the maximal independent set of a greedy algorithm.

    Each node has a random number. In each phase of the algorithm, a node joins the set if no
    undecided neighbour has a smaller number, and its neighbours are excluded. The depth of a node
    (a measure of the steps that its label needs) is the number of the phase that decides it. The
    feature of an edge is 1 if its source has the smaller number. In SALSA-CLRS, nodes read the
    numbers themselves, and get new ones in each phase.
    """

    name: ClassVar[str] = "graph-mis"
    presets = GRAPH_PROBLEM | {"salsa-clrs": SALSA_CLRS}
    node_kinds: ClassVar[Vocabulary] = Vocabulary(["node"])
    edge_feats = 1

    def solve(self, union: GraphUnion, random: np.random.Generator) -> Solution:
        numbers = random.random(union.sizes.sum())
        source, target = union.edges
        is_smaller = numbers[source] < numbers[target]
        labels, depth = np.full((2, len(numbers)), -1)
        phase = 0
        while (is_open := labels < 0).any():
            waits = is_smaller & is_open[source]
            joins = is_open.copy()
            joins[target[waits]] = False
            labels[target[joins[source]]] = 0
            labels[joins] = 1
            phase += 1
            depth[is_open & (labels >= 0)] = phase
        nodes, feats = np.zeros_like(labels), is_smaller[:, None].astype(np.float32)
        return {"nodes": nodes, "labels": labels, "depth": depth, "edge_feats": feats}
