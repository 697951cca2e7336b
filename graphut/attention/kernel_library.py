"""The library of compiled kernels for this machine, and the C structures of its arguments."""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable
from ctypes import POINTER, Structure, c_double, c_int, c_int64, c_uint32, c_void_p
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import torch
from torch import Tensor

DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2}


class Rows(Structure):
    """A C structure of strided features: entry `(i, h, f)` is `data[i * row + h * head + f]`."""

    _fields_ = [("data", c_void_p), ("row", c_int64), ("head", c_int64), ("index", c_void_p)]

    @classmethod
    def of(cls, table: Tensor, index: Tensor | None = None) -> Rows:
        """Return the structure for features `(N, H, D)`, whose row `i` is `table[index[i]]`."""
        place = None if index is None else index.data_ptr()
        return cls(table.data_ptr(), *table.stride()[:2], place)


class Call(Structure):
    """A C structure with the arguments and the buffers of one attention call (`native/call.h`)."""

    _fields_ = [
        *((name, c_int64) for name in ("rows", "heads", "key_feats", "value_feats")),
        *((name, c_int64) for name in ("sources", "threads")),
        *((name, c_void_p) for name in ("frontier", "start", "stop", "indices")),
        *((name, c_void_p) for name in ("first_edge", "edge_ids")),
        *((name, c_void_p) for name in ("column_start", "column_node", "column_edge")),
        ("nodes", c_int64),
        *((name, Rows) for name in ("query", "key", "value", "out")),
        *((name, Rows) for name in ("out_grad", "query_grad", "key_grad", "value_grad")),
        *((name, c_void_p) for name in ("softmax", "bias", "bias_grad")),
        *((name, c_int64) for name in ("bias_heads", "kernel", "adds", "later")),
        *((name, c_double) for name in ("scale", "keep")),
        *((name, c_uint32) for name in ("seed", "threshold")),
    ]
    nodes_of_frontier: Tensor | None  # whose memory `frontier` refers to; not part of the structure


class Library:
    """The functions of one compiled build of the attention kernels."""

    #: Write output and softmax statistics into a `Call`; return whether the output is finite. The
    #: second argument is a value of `DTYPES`.
    forward: Callable[[Call, int], int]
    #: Compute the gradients of attention, and write them to the buffers of the `Call`.
    backward: Callable[[Call, int], int]
    #: Sort edges (see the function `sort_edges`), given and written by the addresses of tensors.
    sort_edges: Callable[..., None]

    def __init__(self, path: Path) -> None:
        self._dll = ctypes.CDLL(str(path))
        is_ours = hasattr(self._dll, "graphut_call_size")
        if not (is_ours and self._dll.graphut_call_size() == ctypes.sizeof(Call)):
            raise ImportError("it was built from other sources")
        call, pointer = POINTER(Call), c_void_p
        for name, *arguments in (
            ("forward", call, c_int),
            ("backward", call, c_int),
            ("sort_edges", *[pointer] * 2, c_int64, c_int64, *[pointer] * 3),
        ):
            getattr(self._dll, f"graphut_{name}").argtypes = arguments
        self.forward, self.backward = self._dll.graphut_forward, self._dll.graphut_backward
        self.sort_edges = self._dll.graphut_sort_edges

    def lanes(self, dtype: torch.dtype) -> int:
        """Return how many numbers of a dtype fit into one vector register."""
        return int(self._dll.graphut_lanes(DTYPES[dtype]))


def find_library() -> Library | None:
    """Load the build for the widest instruction set of this machine; None if there is no build.

    Warn about a build that cannot be loaded, and take the next one: the results are the same. The
    environment variable `GRAPHUT_NATIVE` may hold the path of another build to load.
    """
    if named := os.environ.get("GRAPHUT_NATIVE"):
        return Library(Path(named))
    builds = {"AVX512": ("avx512", "avx2", "base"), "AVX2": ("avx2", "base")}  # the widest first
    for build in builds.get(torch.backends.cpu.get_cpu_capability(), ("base",)):
        for suffix in reversed(EXTENSION_SUFFIXES):  # .abi3.so before the suffix of one Python
            path = Path(__file__).parent / "native" / f"_{build}{suffix}"
            if path.exists():
                try:
                    return Library(path)
                except (ImportError, OSError) as error:
                    warnings.warn(
                        f"the kernels {path.name} do not load, so graphut is slower: {error}; "
                        "install it again (in a checkout: python setup.py build_ext --inplace)",
                        RuntimeWarning,
                        stacklevel=2,
                    )
    return None


#: The compiled kernels for this machine, or None if they are not built.
LIBRARY = find_library()


def is_built() -> bool:
    """Return whether the kernels are compiled; if they are not, warn once."""
    if LIBRARY is None:
        _warn_that_none_is_built()
    return LIBRARY is not None


@lru_cache(maxsize=1)
def _warn_that_none_is_built() -> None:
    warnings.warn(
        "graphut's compiled kernels are not here, and edge attention is several times slower "
        "without them: install a C++ compiler (such as g++), and then graphut again",
        RuntimeWarning,
        stacklevel=1,
    )


def sort_edges(
    src: Tensor, dst: Tensor, num_src: int, num_dst: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Sort edges `(E,)` by destination, then by source, with a stable sort.

    Returns `(starts, sources, order)`: the edges to node `i` have the indices
    `order[starts[i]:starts[i + 1]]` and the sources `sources[starts[i]:starts[i + 1]]`. On the CPU
    the compiled kernels sort, if they are built.
    """
    if LIBRARY is None or src.device.type != "cpu":
        order = torch.argsort(dst * num_src + src, stable=True)
        return torch.bincount(dst + 1, minlength=num_dst + 1).cumsum(0), src[order], order
    src, dst = src.contiguous(), dst.contiguous()
    results = src.new_empty(num_dst + 1), torch.empty_like(src), torch.empty_like(src)
    pointers = (tensor.data_ptr() for tensor in results)
    LIBRARY.sort_edges(src.data_ptr(), dst.data_ptr(), src.numel(), num_dst, *pointers)
    return results
