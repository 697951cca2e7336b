"""The parity of distances in the graphs of GwAC (github.com/lukasjf/gwac).

    graphut train examples/tasks/gwac.py --out runs/gwac

There are 100 fixed training graphs with 10 nodes, and 10 test graphs of each size.
"""

from typing import ClassVar

import numpy as np

from graphut.experiments.tasks.graph_problems import GraphDistance
from graphut.experiments.tasks.presets import DISTANCE, QUANTIZED
from graphut.experiments.tasks.random_graphs import TREES, Edges

PRESET = DISTANCE["waking"] | QUANTIZED | {"families": "gwac", "sizes": "10-10", "pool": 100}
PRESET |= {"max_steps": 12, "epochs": 3, "test_families": "gwac"}
PRESET |= {"test_sizes": "10,25,50,100,250,500,1000", "test_nodes": 1, "test_graphs": 10}


class GwAC(GraphDistance):
    """Predict whether the distance to the marked node is odd, in trees with some further edges."""

    name: ClassVar[str] = "gwac"
    presets: ClassVar = {"small": PRESET}
    known_families = (*GraphDistance.known_families, "gwac")

    def _draw_edges(self, family: str, size: int, random: np.random.Generator) -> Edges:
        """Draw a uniformly random tree, and `size // 5` more edges."""
        if family != "gwac":
            return super()._draw_edges(family, size, random)
        edges = set(map(tuple, np.sort(TREES["uniform"](size, random)).tolist()))
        while len(edges) < size - 1 + size // 5:
            one, other = sorted(random.integers(0, size, 2).tolist())
            if one < other:
                edges.add((one, other))
        return np.array(sorted(edges), np.int64)
