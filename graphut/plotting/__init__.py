"""Pictures of topologies; `pip install graphut[plot]` brings the matplotlib that they need."""

from graphut.plotting.topology import draw_topology

__all__ = ["draw_topology"]
