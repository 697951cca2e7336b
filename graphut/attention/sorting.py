"""Sort edges by destination and source."""

import torch
from torch import Tensor

from graphut.attention import kernel_library
from graphut.attention.tracing import is_intercepted


def sort_edges(
    src: Tensor, dst: Tensor, num_src: int, num_dst: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Sort edges `(E,)` by destination, then by source, with a stable sort.

    Returns `(starts, sources, order)`: the edges to node `i` have the indices
    `order[starts[i]:starts[i + 1]]` and the sources `sources[starts[i]:starts[i + 1]]`. On the CPU
    the compiled kernels sort, if they are built.
    """
    library = kernel_library.LIBRARY
    if library is None or src.device.type != "cpu" or is_intercepted():
        return sort_edges_by_torch(src, dst, num_src, num_dst)
    return library.sort_edges(src.contiguous(), dst.contiguous(), num_dst)


def sort_edges_by_torch(
    src: Tensor, dst: Tensor, num_src: int, num_dst: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute `sort_edges` with torch operators, for any device and for tracing."""
    order = torch.argsort(dst * num_src + src, stable=True)
    # Unlike bincount, this has a size that does not depend on values, for tracing.
    counts = dst.new_zeros(num_dst + 1).index_add(0, dst + 1, torch.ones_like(dst))
    return counts.cumsum(0), src[order], order
