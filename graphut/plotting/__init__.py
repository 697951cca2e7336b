"""Pictures; they need matplotlib, which `pip install graphut[plot]` brings."""

from graphut.plotting.topology import draw_topology

__all__ = ["draw_topology"]
