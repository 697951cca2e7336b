"""One graph on many processes: each owns some nodes, and copies their remote in-neighbours."""

from graphut.distributed.halo import Halo
from graphut.distributed.parts import (
    Part,
    assign_parts,
    cut_graph,
    load_part,
    topology_part,
    write_parts,
)

__all__ = [
    "Halo",
    "Part",
    "assign_parts",
    "cut_graph",
    "load_part",
    "topology_part",
    "write_parts",
]
