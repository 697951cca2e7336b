"""Edge attention in C++: fastest on the CPU, and optional."""

from graphut.attention.native.attention import NATIVE
from graphut.attention.native.library import compiled
from graphut.attention.native.ops import fast_norm

__all__ = ["NATIVE", "compiled", "fast_norm"]
