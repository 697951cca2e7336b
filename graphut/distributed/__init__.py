"""One graph divided among processes; each copies in-neighbours of its nodes from the others."""

from graphut.distributed.halo import Halo
from graphut.distributed.parts import Part, cut_graph

__all__ = ["Halo", "Part", "cut_graph"]
