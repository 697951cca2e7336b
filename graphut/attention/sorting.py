"""Sorting by small numbers, such as the nodes of edges: counted, and put in place."""

from __future__ import annotations

import torch
from torch import Tensor

from graphut.attention.library import compiled
from graphut.attention.transforms import in_transform, is_traced


def stable_order(
    numbers: Tensor, buckets: int, order: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return where each number's entries begin, and the order that sorts them.

    The compiled kernels take two passes over the entries; without them, torch sorts.

    Parameters
    ----------
    numbers : Tensor
        `(E,)` int64, each at least 0 and below `buckets`.
    buckets : int
        How many different numbers there may be.
    order : Tensor, optional
        `(E,)` int64, the order that equal numbers keep; as they come if not given.

    Returns
    -------
    tuple of Tensor
        `(starts, order)`, `(buckets + 1,)` and `(E,)`: the entries whose number is `n` are
        `order[starts[n]:starts[n + 1]]`.

    Examples
    --------
    >>> starts, order = stable_order(torch.tensor([2, 0, 2]), 3)
    >>> starts.tolist(), order.tolist()
    ([0, 1, 1, 3], [1, 0, 2])
    """
    library = compiled()
    if library is None or numbers.device.type != "cpu" or is_traced() or in_transform():
        return sorted_by_torch(numbers, buckets, order)
    return library.stable_order(numbers.contiguous(), buckets, order)


def sorted_by_torch(
    numbers: Tensor, buckets: int, order: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return what `stable_order` does, on every device and in traced programs."""
    # A count of each number, in a tensor whose size does not depend on what the numbers are.
    counts = numbers.new_zeros(buckets + 1).index_add(0, numbers + 1, torch.ones_like(numbers))
    if order is None:
        return counts.cumsum(0), torch.argsort(numbers, stable=True)
    return counts.cumsum(0), order[torch.argsort(numbers[order], stable=True)]
