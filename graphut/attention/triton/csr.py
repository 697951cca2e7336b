"""Triton attention for any layout: group edges by destination or source, and launch kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphut.attention.layout import EdgeLayout
from graphut.attention.ragged import ragged_arange
from graphut.attention.sorting import sort_edges
from graphut.attention.triton.inputs import KernelInputs, padded
from graphut.attention.triton.kernels.csr import rows_forward, rows_query, rows_source
from graphut.attention.triton.kernels.merge import merge_outputs, merge_sums
from graphut.attention.triton.sizes import FUSED, edges_at_once, row_warps


def forward(inputs: KernelInputs, out: Tensor, rest: Tensor | None, softmax: Tensor) -> None:
    """Write the output, its rounding error to `rest`, and each row's softmax maximum and sum."""
    edges = inputs.layout.cached(by_destination, inputs.split)
    slot = _slot(inputs, edges)
    shared = _arguments(inputs, edges) | {"nodes": inputs.active.nodes, "slot": slot, "rest": rest}
    parts = _launch(
        rows_forward, inputs.active.rows, edges, {"out": out, "softmax": softmax}, shared
    )
    if parts:
        _merge(merge_outputs, edges, slot, (parts["out"], parts["softmax"], out, rest, softmax))


def backward_rows(inputs: KernelInputs, to_query: Tensor, given: dict[str, Any]) -> None:
    """Write the query's gradient; write to `given` the bias gradient and `delta = out . to_out`."""
    edges = inputs.layout.cached(by_destination, inputs.split)
    slot = _slot(inputs, edges)
    shared = _arguments(inputs, edges) | {"nodes": inputs.active.nodes, "slot": slot} | given
    parts = _launch(rows_query, inputs.active.rows, edges, {"to_query": to_query}, shared)
    if parts:
        _merge(merge_sums, edges, slot, (parts["to_query"], to_query))


def backward_sources(
    inputs: KernelInputs, to_key: Tensor, to_value: Tensor, given: dict[str, Any]
) -> None:
    """Write the gradients of key and value; `given` has the other arguments of the kernel."""
    edges = inputs.layout.cached(by_source, inputs.split)
    shared = _arguments(inputs, edges) | {"slot": inputs.active.slot} | given
    results = {"to_key": to_key, "to_value": to_value}
    for name, part in _launch(rows_source, edges.num_nodes, edges, results, shared).items():
        _merge(merge_sums, edges, None, (part, results[name]))


def _launch(
    kernel: Any, rows: int, edges: CSREdges, results: dict[str, Tensor], shared: dict[str, Any]
) -> dict[str, Tensor]:
    """Run a kernel for short rows, then for pieces of long rows; return the results of pieces.

    A row is the edges of one node; for long rows see `Pieces`. `results` (of short rows) and the
    returned dictionary map argument names to output tensors. `shared` has all other arguments.
    """
    heads = shared["heads"]
    kernel[(rows * heads,)](owner=None, start=None, **results, **shared)
    pieces = edges.pieces.owner.numel()
    if not pieces:
        return {}
    parts = {
        name: torch.empty(pieces, *x.shape[1:], dtype=torch.float32, device=x.device)
        for name, x in results.items()
    }
    kernel[(pieces * heads,)](owner=edges.pieces.owner, start=edges.pieces.start, **parts, **shared)
    return parts


def _merge(kernel: Any, edges: CSREdges, slot: Tensor | None, tensors: tuple[Any, ...]) -> None:
    _, heads, width = tensors[0].shape
    long = edges.pieces.rows
    kernel[(long.numel() * heads,)](
        *tensors,
        slot,
        long,
        edges.pieces.cuts,
        heads=heads,
        width=width,
        block_width=padded(width),
        block_p=edges_at_once(padded(width)),
        **FUSED,
    )


def _slot(inputs: KernelInputs, edges: CSREdges) -> Tensor | None:
    """Return the query row of each destination; None without long rows, or without a frontier."""
    return inputs.active.slot if edges.pieces.rows.numel() else None


def _arguments(inputs: KernelInputs, edges: CSREdges) -> dict[str, Any]:
    return inputs.arguments() | {
        "indptr": edges.indptr,
        "neighbours": edges.neighbours,
        "ids": edges.ids,
        "num_nodes": edges.num_nodes,
        "split": edges.split,
        "block_e": edges_at_once(max(inputs.widths)),
        "num_warps": row_warps(max(inputs.widths)),
    }


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of long rows: of nodes with more edges than one program of a kernel computes."""

    owner: Tensor  # (pieces,) int32, the row that each piece is of
    start: Tensor  # (pieces,) int64, its first edge
    rows: Tensor  # (long,) int32, the long rows
    cuts: Tensor  # (long + 1,) int32, the first piece of each


@dataclass(frozen=True, eq=False)
class CSREdges:
    """The edges in CSR format, grouped by destination or by source."""

    indptr: Tensor  # (nodes + 1,) int64, the first edge of each node
    neighbours: Tensor  # (E,) int32, the other end of each edge
    ids: Tensor | None  # (E,) int64, its id; None if they are 0, ..., E - 1
    split: int  # edges a program does at most
    pieces: Pieces  # of the nodes with more

    @property
    def num_nodes(self) -> int:
        """Number of destinations, or of sources if the edges are grouped by source."""
        return self.indptr.numel() - 1


def by_destination(layout: EdgeLayout, split: int) -> CSREdges:
    """Group the edges by destination, and cut groups of more than `split` edges into pieces."""
    indptr, sources = layout.row_starts, layout.sources().int()
    return CSREdges(indptr, sources, layout.edge_ids, split, cut_long(indptr, split))


def by_source(layout: EdgeLayout, split: int) -> CSREdges:
    """Group the edges by source, and cut groups of more than `split` edges into pieces."""
    ends = layout.destinations(), layout.sources()
    indptr, destinations, order = sort_edges(*ends, layout.num_dst, layout.num_src)
    ids = order if layout.edge_ids is None else layout.edge_ids[order]
    return CSREdges(indptr, destinations.int(), ids, split, cut_long(indptr, split))


def cut_long(indptr: Tensor, split: int) -> Pieces:
    """Cut the CSR rows with more than `split` edges into pieces of at most `split` edges.

    Examples
    --------
    >>> import torch
    >>> cut_long(torch.tensor([0, 2, 7]), 2)
    Pieces(owner=tensor([1, 1, 1], dtype=torch.int32), start=tensor([2, 4, 6]),
           rows=tensor([1], dtype=torch.int32), cuts=tensor([0, 3], dtype=torch.int32))
    """
    degrees = indptr.diff()
    rows = (degrees > split).nonzero()[:, 0]
    counts = -(-degrees[rows] // split)
    cuts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    of, step = ragged_arange(counts)
    start = indptr[rows[of]] + step * split
    return Pieces(rows[of].int(), start, rows.int(), cuts.int())
