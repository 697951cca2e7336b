"""Attention in plain torch, on any device: dense tiles where they fit, else segments of edges."""

from __future__ import annotations

from graphut.attention.backend import AttentionResult, Backend
from graphut.attention.call import AttentionCall
from graphut.attention.layout import IntervalLayout
from graphut.attention.segments import segment_attention
from graphut.attention.tiles import tile_attention
from graphut.attention.transforms import in_transform


def torch_attention(call: AttentionCall) -> AttentionResult:
    """Attend by tiles over interval layouts, by segments where single edges are needed."""
    return AttentionResult(tile_attention(call)) if _is_tiled(call) else segment_attention(call)


def _is_tiled(call: AttentionCall) -> bool:
    some = call.layout.num_edges > 0 and call.query.shape[0] > 0
    # torch's attention has no forward-mode derivative.
    return isinstance(call.layout, IntervalLayout) and call.is_plain and some and not in_transform()


TORCH = Backend(
    name="torch",
    attend=torch_attention,
    transformable=True,
    # On single edges DGL's kernels beat plain torch.
    auto_rank=lambda call: 1 if _is_tiled(call) else 3,
)
