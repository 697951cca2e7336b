"""The backends by name: the one place where a new one plugs in.

A backend is a function from an `AttentionCall` to the output, `(A, H, Dv)`, and the weights of
the call's edges, `(e, H)`, or `None` where it does not hold them.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from graphut.attention.call import AttentionCall
from graphut.attention.dense import dense_attention
from graphut.attention.dgl_ops import dgl_attention
from graphut.attention.layout import IntervalLayout
from graphut.attention.segments import segment_attention
from graphut.attention.tiles import tile_attention

Backend = Callable[[AttentionCall], tuple[Tensor, Tensor | None]]


def torch_attention(call: AttentionCall) -> tuple[Tensor, Tensor | None]:
    """Tiles for interval layouts, segments of edges for whatever needs single edges."""
    return (tile_attention(call), None) if _tiled(call) else segment_attention(call)


def _tiled(call: AttentionCall) -> bool:
    some = call.layout.num_edges > 0 and call.query.shape[0] > 0
    return isinstance(call.layout, IntervalLayout) and call.plain and some


BACKENDS: dict[str, Backend] = {
    "dense": dense_attention,
    "dgl": dgl_attention,
    "torch": torch_attention,
}


def choose(name: str, call: AttentionCall) -> Backend:
    """The backend of a name; `"auto"` takes the fastest that can do the call."""
    if name != "auto":
        return BACKENDS[name]
    # DGL's wheel is CPU-only, and its kernels beat plain torch on single edges there.
    by_edge = call.query.device.type == "cpu" and not _tiled(call)
    return dgl_attention if by_edge else torch_attention
