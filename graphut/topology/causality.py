"""Test whether information from later tokens can reach earlier ones."""

from collections.abc import Callable

import torch
from torch import Tensor

from graphut.attention.layout import EdgeLayout, IntervalLayout
from graphut.attention.ragged import positions

ExtraStarts = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def sees_future(layout: EdgeLayout, lengths: Tensor, extra_starts: ExtraStarts) -> bool:
    """Return True if information from a later token can reach an earlier one in some sentence.

    `layout` is `topology.layout(lengths)`, `lengths` are the numbers of tokens of the sentences,
    `(batch,)` int64, and `extra_starts` is `topology.extra_starts`. Extra nodes have no position,
    so the function computes the latest token that can reach each of them.
    """
    if isinstance(layout, IntervalLayout) and not layout.extra_nodes:  # fast, in every batch
        last = layout.hi - 1
        return bool(((last > torch.arange(layout.num_dst)) & (last >= layout.lo)).any())
    position = positions(layout.dst_lengths)
    n = torch.repeat_interleave(lengths, layout.dst_lengths)
    extra = position >= n
    lo, hi = extra_starts(position[extra] - n[extra], n[extra])
    latest = position.clone()  # the latest token whose information has reached each node
    latest[extra] = torch.where(hi > lo, hi, 0) - 1
    row, source, _ = layout.in_edges()
    into_extra = extra[row]
    while True:
        updated = latest.scatter_reduce(0, row[into_extra], latest[source[into_extra]], "amax")
        if torch.equal(updated, latest):
            return bool((latest[source] > position[row])[~into_extra].any())
        latest = updated
