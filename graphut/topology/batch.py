"""The lengths and the DGL graph of a batch of sentences, and whether tokens see later ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from graphut._dgl import DGLGraph, dgl
from graphut._torch import Tensor, torch
from graphut.attention.ragged import positions

if TYPE_CHECKING:
    from graphut.attention import EdgeLayout

Lengths: TypeAlias = Sequence[int] | Tensor
EdgeType = tuple[str, str, str]
ExtraStarts = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
Interval = tuple[Tensor, Tensor]  # (lo, hi): the half-open interval from `lo` to `hi`


def as_lengths(lengths: Lengths, name: str = "lengths") -> Tensor:
    """Check that lengths are positive integers, and return them as `(batch,)` int64 on the CPU."""
    checked = torch.as_tensor(lengths)
    if checked.numel() == 0:
        raise ValueError(f"{name} is empty: a batch needs at least one sentence")
    if checked.dim() != 1 or checked.dtype == torch.bool or checked.dtype.is_floating_point:
        raise TypeError(
            f"{name} must have one integer per sentence, such as [5, 3]; got {lengths!r}"
        )
    checked = checked.to(device="cpu", dtype=torch.int64)
    if int(checked.min()) <= 0:
        index = int((checked <= 0).nonzero()[0])
        raise ValueError(f"{name}[{index}] is {int(checked[index])}: every length must be positive")
    return checked


def graph_from_layouts(layouts: Mapping[EdgeType, EdgeLayout]) -> DGLGraph:
    """Return a batched DGL graph with one edge type per layout.

    The keys of `layouts` are `(source type, edge type, destination type)`. The edges are sorted by
    destination and source. The graph stores the layouts for `graphut.attention.as_layout`.
    """
    from graphut.attention import keep_layout

    no_ids = torch.empty(0, dtype=torch.int64)  # DGL then uses the order of the edges
    edges, lengths = {}, {}
    for etype, layout in layouts.items():
        edges[etype] = ("csc", (layout.row_starts, layout.sources(), no_ids))
        lengths[etype[0]], lengths[etype[2]] = layout.src_lengths, layout.dst_lengths
    graph = dgl.heterograph(edges, {ntype: int(n.sum()) for ntype, n in lengths.items()})
    # Copies: DGL returns these tensors to the caller, who may modify them.
    graph.set_batch_num_nodes({ntype: n.clone() for ntype, n in lengths.items()})
    ends = {e: layout.row_starts[layout.dst_lengths.cumsum(0)] for e, layout in layouts.items()}
    graph.set_batch_num_edges({e: end.diff(prepend=end.new_zeros(1)) for e, end in ends.items()})
    for etype, layout in layouts.items():
        keep_layout(graph, etype, layout)
    return graph


def sees_future(layout: EdgeLayout, lengths: Tensor, extra_starts: ExtraStarts) -> bool:
    """Return True if information from a later token can reach an earlier one in some sentence.

    `layout` is `topology.layout(lengths)`, `lengths` are the numbers of tokens of the sentences,
    `(batch,)` int64, and `extra_starts` is `topology.extra_starts`. Extra nodes have no position,
    so the function computes the latest token that can reach each of them.
    """
    intervals: Any = layout if hasattr(layout, "hi") and not layout.extra_nodes else None
    if intervals is not None:  # fast, in every batch
        last = intervals.hi - 1
        return bool(((last > torch.arange(layout.num_dst)) & (last >= intervals.lo)).any())
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
