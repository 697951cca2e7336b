"""Sorting of edges by their ends."""

from __future__ import annotations

import torch
from torch import Tensor

from graphut.attention.library import compiled
from graphut.attention.transforms import in_transform, is_intercepted


def sort_edges(
    src: Tensor, dst: Tensor, num_src: int, num_dst: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return edges by destination, then by source; equal ones stay in their order.

    The compiled kernels take two passes over the edges; without them, torch sorts.

    Parameters
    ----------
    src, dst : Tensor
        `(E,)` int64, the ends of each edge.
    num_src, num_dst : int
        Number of nodes on either side, above all ends.

    Returns
    -------
    tuple of Tensor
        `(starts, sources, order)`: the edges to node `i` are `order[starts[i]:starts[i + 1]]`,
        and `sources` are theirs.

    Examples
    --------
    >>> starts, sources, order = sort_edges(torch.tensor([1, 0, 0]), torch.tensor([1, 0, 1]), 2, 2)
    >>> starts.tolist(), sources.tolist(), order.tolist()
    ([0, 1, 3], [0, 0, 1], [1, 2, 0])
    """
    library = compiled()
    if library is None or src.device.type != "cpu" or is_intercepted() or in_transform():
        return sort_edges_by_torch(src, dst, num_src, num_dst)
    return library.sort_edges(src.contiguous(), dst.contiguous(), num_dst)


def sort_edges_by_torch(
    src: Tensor, dst: Tensor, num_src: int, num_dst: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `sort_edges` does, on every device and in traced programs."""
    order = torch.argsort(dst * num_src + src, stable=True)
    # Counts in a tensor whose size does not depend on what the numbers are.
    counts = dst.new_zeros(num_dst + 1).index_add(0, dst + 1, torch.ones_like(dst))
    return counts.cumsum(0), src[order], order
