"""Triton attention for any layout: group edges by destination or source, and launch kernels."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphut.attention.layout import EdgeLayout
from graphut.attention.ragged import ragged_arange
from graphut.attention.sorting import sort_edges
from graphut.attention.triton.inputs import (
    BY_HEAD,
    KernelCall,
    Launch,
    by_head,
    launch_of,
    with_options,
)
from graphut.attention.triton.kernels import attention
from graphut.attention.triton.kernels.csr import merge_pieces
from graphut.attention.triton.sizes import row_sizes

# These kernels do not use tensor cores, so that narrow heads are not padded to 16 features.
LEAST = 4


def launches_of(
    call: KernelCall, layout: Any, known: Mapping[str, Any], *, backward: bool = False
) -> list[Launch]:
    """Return launches that write what those of `interval.launches_of` write."""
    if not backward:
        return _launches(attention.attention_forward, call, layout, known, "out", "softmax")
    launches = _launches(attention.attention_query, call, layout, known, "to_query")
    if known["to_key"] is not None:
        launches += _launches(attention.attention_source, call, layout, known, "to_key", "to_value")
    return launches


def _launches(
    kernel: Any, call: KernelCall, layout: EdgeLayout, known: Mapping[str, Any], *written: str
) -> list[Launch]:
    """Return launches for short rows, for pieces of long rows, and to merge the pieces.

    A row is the edges of one node; for long rows see `Pieces`. `known` are the other arguments.
    """
    by_row, heads = kernel is not attention.attention_source, call.heads.value
    edges = layout.cached(by_destination if by_row else by_source, known["split"])
    sizes, own = row_sizes(call.widest), by_head(known, heads, LEAST)
    own |= {"call": call, **with_options(sizes)}
    own["edges"] = edges if call.by_edge else edges._replace(ids=None)
    rows = len(call.query.data) if by_row else len(edges.indptr) - 1
    launches, pieces = [launch_of(kernel, (rows * heads,), own)], edges.pieces
    if not len(pieces.owner):
        return launches
    parts = {
        name: known[name].new_empty(len(pieces.owner), *known[name].shape[1:], dtype=torch.float32)
        for name in written
    }
    of_pieces = own | by_head(parts, heads, LEAST)
    of_pieces |= with_options(sizes._replace(in_pieces=True))
    if "out" in parts:  # its rounding error is known when the pieces are merged
        of_pieces["rest"] = None
    launches.append(launch_of(kernel, (len(pieces.owner) * heads,), of_pieces))
    own |= {"pieces": pieces, "part_softmax": parts.get("softmax")}
    own["before"] = call.rows.before if by_row else None
    for name in filter(BY_HEAD.__contains__, written):
        long = {"out": own[name], "parts": of_pieces[name]}
        long |= with_options(row_sizes(own[name].block.value))
        launches.append(launch_of(merge_pieces, (len(pieces.rows) * heads,), own | long))
    return launches


class Pieces(NamedTuple):
    """Pieces of long rows: of nodes with more edges than one program of a kernel computes."""

    owner: Tensor  # (pieces,) int32, the row that each piece is of
    start: Tensor  # (pieces,) int64, its first edge
    rows: Tensor  # (long,) int32, the long rows
    cuts: Tensor  # (long + 1,) int32, the first piece of each
    split: int  # the most edges of a piece, or of a row that is not long


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
           rows=tensor([1], dtype=torch.int32), cuts=tensor([0, 3], dtype=torch.int32), split=2)
    """
    degrees = indptr.diff()
    rows = (degrees > split).nonzero()[:, 0]
    counts = -(-degrees[rows] // split)
    cuts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    of, step = ragged_arange(counts)
    start = indptr[rows[of]] + step * split
    return Pieces(rows[of].int(), start, rows.int(), cuts.int(), split)
