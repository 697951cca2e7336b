"""The table of all backends, and functions that choose a backend for a call."""

from graphut.attention.backend import AttentionCall, Backend
from graphut.attention.dense import DENSE
from graphut.attention.dgl_ops import DGL
from graphut.attention.native.attention import NATIVE
from graphut.attention.torch_ops import TORCH
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


def candidates(call: AttentionCall) -> list[str]:
    """Return the names of the backends that `"auto"` can use for a call, highest priority first."""
    ranked = [
        (backend.auto_rank(call), backend.name)
        for backend in BACKENDS.values()
        if backend.auto_rank is not None and backend.can_do(call)
    ]
    return [name for _, name in sorted(ranked)]


def choose(name: str, call: AttentionCall) -> Backend:
    """Return the backend called `name`, or for `"auto"` the one with the highest priority.

    If the named backend cannot return weights that the call needs, the backend "torch" replaces it.
    Raise an error if the named backend does not support the call.
    """
    if name == "auto":
        return BACKENDS[candidates(call)[0]]
    backend = BACKENDS[name]
    backend.check(call.query)
    return backend if backend.returns_weights or not call.need_weights else TORCH
