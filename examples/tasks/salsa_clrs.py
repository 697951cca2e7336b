"""Breadth-first search in the graphs of SALSA-CLRS (arXiv 2309.12253).

    graphut train examples/tasks/salsa_clrs.py --out runs/bfs

There are 10,000 training graphs with 4 to 16 nodes, and 100 test graphs of each kind and size, with
up to 1600 nodes (1000 in the paper). The preset `registers` of the tasks graph-bfs and
graph-dijkstra has the same graphs; maximal independent sets are in mis.py.
"""

from typing import ClassVar

from graphut.experiments.tasks.graph_problems import GraphBFS
from graphut.experiments.tasks.presets import BFS, SALSA_GRAPHS

PRESET = BFS["waking"] | SALSA_GRAPHS | {"max_steps": 16, "messages": "none", "epochs": 5}


class SalsaBFS(GraphBFS):
    """Predict for each node an in-edge that leads towards the marked node."""

    name: ClassVar[str] = "salsa-bfs"
    presets: ClassVar = {"small": PRESET}
