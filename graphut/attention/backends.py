"""The backends by name: the one place where a new one plugs in.

A backend is a function from an `AttentionCall` to the output, `(A, H, Dv)`, and the weights of
the call's edges, `(e, H)`, or `None` where it does not hold them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from graphut.attention.call import AttentionCall
from graphut.attention.dense import dense_attention
from graphut.attention.dgl_ops import dgl_attention
from graphut.attention.layout import IntervalLayout
from graphut.attention.measured import measured_backend
from graphut.attention.native import compiled, native_attention
from graphut.attention.native.library import DTYPES
from graphut.attention.segments import segment_attention
from graphut.attention.tiles import tile_attention
from graphut.attention.triton import takes, triton_attention

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
    "native": native_attention,
    "triton": triton_attention,
}


def candidates(call: AttentionCall) -> list[str]:
    """Names of backends that can do a call; the first is the one to take where none was measured.

    The oracle is not among them.
    """
    if call.query.device.type != "cpu":
        return ["triton", "torch"] if takes(call) else ["torch"]
    # DGL's wheel is CPU-only, and its kernels beat plain torch on single edges there.
    plain = ["torch", "dgl"] if _tiled(call) else ["dgl", "torch"]
    if torch.compiler.is_compiling():
        plain = ["torch"]  # nobody can look into DGL's
    if call.query.dtype not in DTYPES or call.need_weights:
        return plain
    if compiled() is None:
        _say_what_is_missing()
        return plain
    return ["native", *plain]


@lru_cache(maxsize=1)
def _say_what_is_missing() -> None:
    warnings.warn(
        "graphut's compiled kernels are not here, and edge attention is several times slower "
        "without them: install graphut again where there is a C++ compiler (such as g++)",
        RuntimeWarning,
        stacklevel=1,
    )


def choose(name: str, call: AttentionCall) -> Backend:
    """The backend of a name; `"auto"` takes what was measured to be fastest on this machine."""
    if name != "auto":
        return BACKENDS[name]
    able = candidates(call)
    fastest = measured_backend(call, able)
    return BACKENDS[able[0] if fastest is None else fastest]
