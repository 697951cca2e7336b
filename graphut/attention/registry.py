"""The table of all backends, and functions that choose a backend for a call."""

from graphut.attention.backend import AttentionCall, Backend
from graphut.attention.dense import DENSE
from graphut.attention.dgl_ops import DGL, has_few_rows
from graphut.attention.native.attention import NATIVE
from graphut.attention.torch_ops import TORCH, is_tiled
from graphut.attention.triton.backend import TRITON

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
        by_dgl = not (is_tiled(call) or has_few_rows(call))
        return DGL if by_dgl and DGL.can_do(call) else TORCH
    backend = BACKENDS[name]
    backend.check(call.query)
    return backend if backend.returns_weights or not call.need_weights else TORCH
