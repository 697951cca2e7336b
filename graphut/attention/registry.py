"""The table of all backends, and functions that choose a backend for a call."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from graphut._dgl import is_installed as has_dgl
from graphut.attention.backend import AttentionCall, Backend
from graphut.attention.native.attention import NATIVE
from graphut.attention.torch_ops import TORCH, is_tiled


def _imported(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports another one when it is called first."""
    return lambda *args: getattr(import_module(f"graphut.attention.{module}"), name)(*args)


DENSE = Backend(name="dense", attend=_imported("dense", "dense_attention"))
DGL = Backend(
    name="dgl",
    attend=_imported("dgl_ops", "dgl_attention"),
    devices=("cpu",),  # the wheel of DGL has no CUDA
    checks_device=True,
    is_installed=lambda: has_dgl,
)
TRITON = Backend(
    name="triton",
    attend=_imported("triton.backend", "attend_or_fall_back"),
    devices=("cuda",),
    checks_device=True,
    dtypes=(torch.float32, torch.bfloat16, torch.float16),
    returns_weights=False,
    is_installed=_imported("triton.backend", "is_installed"),
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
