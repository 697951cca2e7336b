"""Batches of sentences: their lengths, the numbers of their nodes, and their DGL graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from graphut._dgl import DGLGraph, dgl
from graphut.attention.graphs import keep_layout
from graphut.attention.layout import EdgeLayout

Lengths = Sequence[int] | Tensor
EdgeType = tuple[str, str, str]
Interval = tuple[Tensor, Tensor]  # from `lo`, up to but without `hi`

_CANONICAL = torch.empty(0, dtype=torch.int64)  # no edge ids: DGL numbers the edges as they come


def as_lengths(lengths: Lengths, name: str = "lengths") -> Tensor:
    """Check the lengths of a batch of sentences; return them as `(batch,)` int64 on the CPU.

    Raises TypeError if they are not integers in a sequence or a 1-D tensor, and ValueError if the
    batch is empty, or a length is not positive.

    Examples
    --------
    >>> as_lengths([3, 1])
    tensor([3, 1])
    """
    if isinstance(lengths, str) or not hasattr(lengths, "__getitem__"):
        raise TypeError(f"{name} must be one integer a sentence, such as [5, 3]; got {lengths!r}")
    try:
        checked = torch.as_tensor(lengths)
    except (RuntimeError, ValueError) as error:
        raise TypeError(f"{name} must be one integer a sentence; got {lengths!r}") from error
    if checked.numel() == 0:
        raise ValueError(f"{name} is empty: a batch needs at least one sentence")
    if checked.dim() != 1 or not holds_integers(checked):
        raise TypeError(
            f"{name} must be one integer a sentence; got {checked.dtype} "
            f"in the shape {tuple(checked.shape)}"
        )
    checked = checked.to(device="cpu", dtype=torch.int64)
    if int(checked.min()) <= 0:
        index = int((checked <= 0).nonzero()[0])
        raise ValueError(f"{name}[{index}] is {int(checked[index])}: every length must be positive")
    return checked


def holds_integers(values: Tensor) -> bool:
    """Return True for a tensor of integers, which truth values are not."""
    return not (values.is_floating_point() or values.is_complex() or values.dtype == torch.bool)


def graph_from_layouts(layouts: Mapping[EdgeType, EdgeLayout]) -> DGLGraph:
    """Return one batched graph with an edge type for each layout, edges in canonical order.

    The layouts, by `(source type, edge type, destination type)`, are in canonical order; those that
    share a node type agree on its lengths. The graph keeps them, for `graphut.attention.as_layout`.
    """
    edges, lengths = {}, {}
    for etype, layout in layouts.items():
        edges[etype] = ("csc", (layout.row_starts, layout.sources(), _CANONICAL))
        lengths[etype[0]], lengths[etype[2]] = layout.src_lengths, layout.dst_lengths
    graph = dgl.heterograph(edges, {ntype: int(n.sum()) for ntype, n in lengths.items()})
    # Copies, which DGL hands out: whoever writes into them does not change the layout.
    graph.set_batch_num_nodes({ntype: n.clone() for ntype, n in lengths.items()})
    graph.set_batch_num_edges({etype: _edges_per_sentence(layouts[etype]) for etype in layouts})
    for etype, layout in layouts.items():
        keep_layout(graph, etype, layout)
    return graph


def _edges_per_sentence(layout: EdgeLayout) -> Tensor:
    until = layout.row_starts[layout.dst_lengths.cumsum(0)]
    return until.diff(prepend=until.new_zeros(1))
