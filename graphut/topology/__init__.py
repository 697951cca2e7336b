"""Who attends to whom: topologies of sentences, their algebra and their spec strings."""

from graphut.topology.algebra import Intersection, Union
from graphut.topology.base import Topology
from graphut.topology.causal import Causal
from graphut.topology.complete import Complete
from graphut.topology.parse import parse
from graphut.topology.window import Window

__all__ = ["Causal", "Complete", "Intersection", "Topology", "Union", "Window", "parse"]
