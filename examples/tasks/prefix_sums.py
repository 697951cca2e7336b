"""Prefix sums modulo 2, trained with 32 bits and tested with 512 (Deep Thinking, arXiv 2106.04537).

    graphut train examples/tasks/prefix_sums.py --preset waking --out runs/prefix

`--test-sizes 512,10000` tests longer sequences, too.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from graphut.experiments.tasks import Vocabulary, option
from graphut.experiments.tasks.graph_problems import GraphProblem, Solution
from graphut.experiments.tasks.presets import (
    GRAPHS,
    NARROW_GRAPH_LAYERS,
    QUANTIZED,
    WAKING_GRAPHS,
    with_baselines,
)
from graphut.experiments.tasks.random_graphs import GraphUnion

WAKING = WAKING_GRAPHS | QUANTIZED | {"sizes": "32-32", "max_steps": 36, "epochs": 2}
WAKING |= {"test_sizes": "512", "test_families": "", "test_graphs": 1000}


@dataclass(frozen=True)
class PrefixParity(GraphProblem):
    """Predict for each node of a line whether the number of ones up to it is odd.

    Edges lead from each node to the next. The kind of a node says whether its bit is 0 or 1, and
    whether it is the first. Its depth is its distance from the first node.
    """

    name: ClassVar[str] = "prefix-parity"
    presets = with_baselines(GRAPHS | {"max_steps": 24}, NARROW_GRAPH_LAYERS) | {"waking": WAKING}
    node_kinds: ClassVar[Vocabulary] = Vocabulary(["0", "1", "first-0", "first-1"])
    known_families = ("path",)
    directed = True

    families: str = option("path", "path, and nothing else")

    def solve(self, union: GraphUnion, random: np.random.Generator) -> Solution:
        first = np.flatnonzero(np.bincount(union.edges[1]) == 1)  # only the self-loop
        place, bits = union.distances(first), random.integers(0, 2, union.sizes.sum())
        in_order = np.lexsort([place, union.graph])
        ones = np.empty_like(bits)
        ones[in_order] = bits[in_order].cumsum()
        before = ones[first] - bits[first]
        labels = (ones - before[union.graph]) % 2
        return {"nodes": bits + 2 * (place == 0), "labels": labels, "depth": place}
