"""Pictures of topologies, attention, ponder time, frontiers and training.

All functions raise `ImportError` without matplotlib; run `pip install matplotlib`.
"""

from typing import TYPE_CHECKING

from graphut._lazy import lazy_names

if TYPE_CHECKING:
    from graphut.plotting.attention import animate_attention, draw_attention
    from graphut.plotting.frontier import animate_frontier, draw_frontier
    from graphut.plotting.ponder import draw_ponder
    from graphut.plotting.topology import draw_topology
    from graphut.plotting.training import draw_training

__all__ = [
    "animate_attention",
    "animate_frontier",
    "draw_attention",
    "draw_frontier",
    "draw_ponder",
    "draw_topology",
    "draw_training",
]

__getattr__, __dir__ = lazy_names(__name__)
