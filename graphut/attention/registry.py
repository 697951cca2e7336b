"""The table of all backends, and functions that choose a backend for a call."""

import torch

from graphut._dgl import is_installed as has_dgl
from graphut.attention.backend import AttentionCall, AttentionResult, Backend
from graphut.attention.native.attention import NATIVE
from graphut.attention.torch_ops import TORCH, is_tiled

# These backends are imported by their first call.


def _dense(call: AttentionCall) -> AttentionResult:
    from graphut.attention.dense import dense_attention

    return dense_attention(call)


def _dgl(call: AttentionCall) -> AttentionResult:
    from graphut.attention.dgl_ops import dgl_attention

    return dgl_attention(call)


def _triton(call: AttentionCall) -> AttentionResult:
    from graphut.attention.triton.backend import attend_or_fall_back

    return attend_or_fall_back(call)


def _has_triton() -> bool:
    from graphut.attention.triton.backend import is_installed

    return is_installed()


DENSE = Backend(name="dense", attend=_dense)
DGL = Backend(
    name="dgl",
    attend=_dgl,
    devices=("cpu",),  # the wheel of DGL has no CUDA
    checks_device=True,
    is_installed=lambda: has_dgl,
)
TRITON = Backend(
    name="triton",
    attend=_triton,
    devices=("cuda",),
    checks_device=True,
    dtypes=(torch.float32, torch.bfloat16, torch.float16),
    returns_weights=False,
    is_installed=_has_triton,
)
BACKENDS: dict[str, Backend] = {
    backend.name: backend for backend in (DENSE, DGL, TORCH, NATIVE, TRITON)
}
"""The backends by name, as in `edge_attention(..., backend=NAME)`."""


def check_backend(name: str) -> None:
    """Raise `ValueError` unless `name` is `"auto"` or the name of a backend."""
    if name != "auto" and name not in BACKENDS:
        names = ", ".join(["auto", *BACKENDS])
        raise ValueError(f"unknown backend {name!r}; choose one of: {names}")


def choose(name: str, call: AttentionCall) -> Backend:
    """Return the backend called `name`, or for `"auto"` the fastest one for the call.

    If the named backend cannot return weights that the call needs, the backend "torch" replaces it.
    Raise an error if the named backend does not support the call.
    """
    if name == "auto":
        for kernels in (TRITON, NATIVE):
            if kernels.can_do(call):
                return kernels
        # With few active rows, copying all keys and values into a graph of DGL dominates.
        has_few_rows = call.frontier is not None and 8 * len(call.frontier) < call.layout.num_dst
        by_dgl = not (is_tiled(call) or has_few_rows)
        return DGL if by_dgl and DGL.can_do(call) else TORCH
    backend = BACKENDS[name]
    backend.check(call.query)
    return backend if backend.returns_weights or not call.need_weights else TORCH
