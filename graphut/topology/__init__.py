"""Topologies: which nodes of a sentence attend to which. Their operators and spec strings."""

from typing import TYPE_CHECKING

from graphut._lazy import lazy_names
from graphut.topology.algebra import Intersection, Union
from graphut.topology.base import Topology
from graphut.topology.parse import parse

if TYPE_CHECKING:
    from graphut.topology.binary_partition import BinaryPartition
    from graphut.topology.edges import Edges, from_edges, from_mask, from_parents
    from graphut.topology.extra_nodes import node_positions, token_nodes, with_extra_nodes
    from graphut.topology.global_tokens import Global, Star, Virtual, bigbird
    from graphut.topology.measures import statistics
    from graphut.topology.random_graphs import Expander, Random
    from graphut.topology.window import (
        Axial,
        Causal,
        Complete,
        Dilated,
        Patch,
        Strided,
        Window,
    )

__all__ = [
    "Axial",
    "BinaryPartition",
    "Causal",
    "Complete",
    "Dilated",
    "Edges",
    "Expander",
    "Global",
    "Intersection",
    "Patch",
    "Random",
    "Star",
    "Strided",
    "Topology",
    "Union",
    "Virtual",
    "Window",
    "bigbird",
    "from_edges",
    "from_mask",
    "from_parents",
    "node_positions",
    "parse",
    "statistics",
    "token_nodes",
    "with_extra_nodes",
]

__getattr__, __dir__ = lazy_names(__name__)
