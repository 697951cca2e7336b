"""Pictures of topologies, attention, ponder time and frontiers.

All functions raise `ImportError` without matplotlib; run `pip install matplotlib`.
"""

from typing import TYPE_CHECKING

from graphut._lazy import lazy_names

if TYPE_CHECKING:
    from graphut.plotting.attention import draw_attention
    from graphut.plotting.frontier import animate_frontier, draw_frontier
    from graphut.plotting.ponder import draw_ponder
    from graphut.plotting.topology import draw_topology

__all__ = [
    "animate_frontier",
    "draw_attention",
    "draw_frontier",
    "draw_ponder",
    "draw_topology",
]

__getattr__, __dir__ = lazy_names(__name__)
