"""Softmax attention over the edges of graphs, with interchangeable backends."""

from typing import TYPE_CHECKING

from graphut._lazy import lazy_names

if TYPE_CHECKING:
    from graphut.attention.backend import Backend
    from graphut.attention.dgl_layouts import as_layout, keep_layout
    from graphut.attention.functional import edge_attention
    from graphut.attention.layout import EdgeLayout, layout_from_edges
    from graphut.attention.registry import BACKENDS

__all__ = [
    "BACKENDS",
    "Backend",
    "EdgeLayout",
    "as_layout",
    "edge_attention",
    "keep_layout",
    "layout_from_edges",
]

__getattr__, __dir__ = lazy_names(__name__)
