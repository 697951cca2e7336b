"""Triton attention for any layout: group edges by destination or source, and launch kernels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import torch
import triton.language as tl
from torch import Tensor

from graphut.attention.layout import EdgeLayout
from graphut.attention.ragged import ragged_arange
from graphut.attention.sorting import sort_edges
from graphut.attention.triton.inputs import (
    BY_HEAD,
    KernelInputs,
    Launch,
    by_head,
    constant,
    launch_of,
)
from graphut.attention.triton.kernels.csr import rows_forward, rows_query, rows_source
from graphut.attention.triton.kernels.merge import merge_outputs, merge_sums
from graphut.attention.triton.sizes import edges_at_once, row_warps

# These kernels do not use tensor cores, so that narrow heads are not padded to 16 features.
LEAST = 4


class RowSizes(NamedTuple):
    """What the kernels are compiled for."""

    split: tl.constexpr  # the most edges of a program
    block: tl.constexpr  # edges that are loaded at once
    in_pieces: tl.constexpr  # whether programs compute pieces of rows


Results: TypeAlias = Mapping[str, Tensor | None]


def forward(inputs: KernelInputs, results: Results) -> list[Launch]:
    """Write `out`, its rounding error `rest`, and each row's `softmax` maximum and sum."""
    known = inputs.arguments(results, LEAST)
    return _launches(rows_forward, inputs, known, {x: results[x] for x in ("out", "softmax")})


def backward(inputs: KernelInputs, results: Results) -> list[Launch]:
    """Write the gradients in `results`, and to `delta` the product `out . to_out`."""
    known = inputs.arguments(results, LEAST)
    launches = _launches(rows_query, inputs, known, {"to_query": results["to_query"]})
    if results["to_key"] is not None:
        written = {x: results[x] for x in ("to_key", "to_value")}
        launches += _launches(rows_source, inputs, known, written)
    return launches


def _launches(
    kernel: Any, inputs: KernelInputs, known: dict[str, Any], written: Results
) -> list[Launch]:
    """Return launches for short rows, for pieces of long rows, and to merge the pieces.

    A row is the edges of one node; for long rows see `Pieces`.
    """
    by_row, heads, width = kernel is not rows_source, inputs.heads, inputs.width(LEAST)
    edges = inputs.layout.cached(by_destination if by_row else by_source, inputs.split)
    sizes = _row_sizes(inputs.split, width)
    known = known | {"num_warps": row_warps(width), "sizes": sizes}
    known["edges"] = edges if inputs.by_edge else edges._replace(ids=None)
    rows = len(inputs.query) if by_row else len(edges.indptr) - 1
    launches = [launch_of(kernel, (rows * heads,), known)]
    pieces = edges.pieces
    if not len(pieces.owner):
        return launches
    parts = {
        name: torch.empty(len(pieces.owner), *x.shape[1:], dtype=torch.float32, device=x.device)
        for name, x in written.items()
        if x is not None
    }
    of_pieces = known | by_head(parts, heads, LEAST)
    of_pieces["sizes"] = sizes._replace(in_pieces=constant(True))
    launches.append(launch_of(kernel, (len(pieces.owner) * heads,), of_pieces))
    known |= {"heads": heads, "pieces": pieces, "part_softmax": parts.get("softmax")}
    known["before"] = inputs.rows.before if by_row else None
    known["stored"] = None if by_row else inputs.stored
    for name in filter(BY_HEAD.__contains__, parts):
        out = known[name]
        long = {"out": out, "parts": of_pieces[name], "block": edges_at_once(out.block.value)}
        merge = merge_outputs if kernel is rows_forward else merge_sums
        launches.append(launch_of(merge, (len(pieces.rows) * heads,), known | long))
    return launches


@cache
def _row_sizes(split: int, width: int) -> RowSizes:
    return RowSizes(*map(constant, (split, edges_at_once(width), False)))


class Pieces(NamedTuple):
    """Pieces of long rows: of nodes with more edges than one program of a kernel computes."""

    owner: Tensor  # (pieces,) int32, the row that each piece is of
    start: Tensor  # (pieces,) int64, its first edge
    rows: Tensor  # (long,) int32, the long rows
    cuts: Tensor  # (long + 1,) int32, the first piece of each


class CSREdges(NamedTuple):
    """The edges in CSR format, grouped by destination or by source."""

    indptr: Tensor  # (nodes + 1,) int64, the first edge of each node
    neighbours: Tensor  # (E,) int32, the other end of each edge
    ids: Tensor | None  # (E,) int64, its id; None if they are 0, ..., E - 1, or do not matter
    pieces: Pieces  # of the nodes with many edges


def by_destination(layout: EdgeLayout, split: int) -> CSREdges:
    """Group the edges by destination, and cut groups of more than `split` edges into pieces."""
    indptr, sources = layout.row_starts, layout.sources().int()
    return CSREdges(indptr, sources, layout.edge_ids, cut_long(indptr, split))


def by_source(layout: EdgeLayout, split: int) -> CSREdges:
    """Group the edges by source, and cut groups of more than `split` edges into pieces."""
    ends = layout.destinations(), layout.sources()
    indptr, destinations, order = sort_edges(*ends, layout.num_dst, layout.num_src)
    ids = order if layout.edge_ids is None else layout.edge_ids[order]
    return CSREdges(indptr, destinations.int(), ids, cut_long(indptr, split))


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
