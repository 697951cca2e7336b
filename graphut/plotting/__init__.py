"""Pictures of topologies, attention, ponder time, frontiers and training.

All functions raise `ImportError` without matplotlib; run `pip install "graphut[plot]"`.
"""

from graphut.plotting.attention import draw_attention
from graphut.plotting.frontier import animate_frontier, draw_frontier
from graphut.plotting.ponder import draw_ponder
from graphut.plotting.topology import draw_topology
from graphut.plotting.training import draw_training

__all__ = [
    "animate_frontier",
    "draw_attention",
    "draw_frontier",
    "draw_ponder",
    "draw_topology",
    "draw_training",
]
