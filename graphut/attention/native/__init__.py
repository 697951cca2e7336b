"""Edge attention in C++: fastest on the CPU, and optional."""

from graphut.attention.native.attention import NATIVE
from graphut.attention.native.library import compiled

__all__ = ["NATIVE", "compiled"]
