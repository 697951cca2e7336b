"""Lengths and DGL graphs of batches of sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from graphut._dgl import DGLGraph, dgl
from graphut.attention.graphs import keep_layout
from graphut.attention.layout import EdgeLayout

Lengths = Sequence[int] | Tensor
EdgeType = tuple[str, str, str]
Interval = tuple[Tensor, Tensor]  # (lo, hi): the half-open interval from `lo` to `hi`

_CANONICAL = torch.empty(0, dtype=torch.int64)  # no edge ids: DGL uses the order of the edges


def as_lengths(lengths: Lengths, name: str = "lengths") -> Tensor:
    """Check the lengths of a batch of sentences and return them as `(batch,)` int64 on the CPU.

    Raises TypeError if they are not a sequence or 1-D tensor of integers, and ValueError if the
    batch is empty or a length is not positive.

    Examples
    --------
    >>> as_lengths([3, 1])
    tensor([3, 1])
    """
    if isinstance(lengths, str) or not hasattr(lengths, "__getitem__"):
        raise TypeError(
            f"{name} must have one integer per sentence, such as [5, 3]; got {lengths!r}"
        )
    try:
        checked = torch.as_tensor(lengths)
    except (RuntimeError, ValueError) as error:
        raise TypeError(f"{name} must have one integer per sentence; got {lengths!r}") from error
    if checked.numel() == 0:
        raise ValueError(f"{name} is empty: a batch needs at least one sentence")
    if checked.dim() != 1 or not holds_integers(checked):
        raise TypeError(
            f"{name} must have one integer per sentence; got {checked.dtype} "
            f"of shape {tuple(checked.shape)}"
        )
    checked = checked.to(device="cpu", dtype=torch.int64)
    if int(checked.min()) <= 0:
        index = int((checked <= 0).nonzero()[0])
        raise ValueError(f"{name}[{index}] is {int(checked[index])}: every length must be positive")
    return checked


def holds_integers(values: Tensor) -> bool:
    """Return True for a tensor of integers; booleans do not count."""
    return not (values.is_floating_point() or values.is_complex() or values.dtype == torch.bool)


def graph_from_layouts(layouts: Mapping[EdgeType, EdgeLayout]) -> DGLGraph:
    """Return a batched DGL graph with one edge type per layout.

    The keys of `layouts` are `(source type, edge type, destination type)`. Layouts that share a
    node type must agree on its lengths. The edges are sorted by destination and source. The graph
    stores the layouts for `graphut.attention.as_layout`.
    """
    edges, lengths = {}, {}
    for etype, layout in layouts.items():
        edges[etype] = ("csc", (layout.row_starts, layout.sources(), _CANONICAL))
        lengths[etype[0]], lengths[etype[2]] = layout.src_lengths, layout.dst_lengths
    graph = dgl.heterograph(edges, {ntype: int(n.sum()) for ntype, n in lengths.items()})
    # Copies: DGL returns these tensors to the caller, who may modify them.
    graph.set_batch_num_nodes({ntype: n.clone() for ntype, n in lengths.items()})
    graph.set_batch_num_edges({etype: _edges_per_sentence(layouts[etype]) for etype in layouts})
    for etype, layout in layouts.items():
        keep_layout(graph, etype, layout)
    return graph


def _edges_per_sentence(layout: EdgeLayout) -> Tensor:
    until = layout.row_starts[layout.dst_lengths.cumsum(0)]
    return until.diff(prepend=until.new_zeros(1))
