"""Universal Transformers on graphs: sparse topologies, adaptive computation time."""

from graphut._version import __version__

__all__ = ["__version__"]
