"""Triton attention for any layout: group edges by destination or source, and launch kernels."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphut.attention.layout import EdgeLayout, full_size
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
    """Return launches that write what those of `interval.launches_of` write.

    `layout` is an `EdgeLayout`, or its `CSREdges` by destination and by source.
    """
    if not backward:
        return _launches(attention.attention_forward, call, layout, known, "out", "softmax")
    launches = _launches(attention.attention_query, call, layout, known, "to_query")
    if known["to_key"] is not None:
        launches += _launches(attention.attention_source, call, layout, known, "to_key", "to_value")
    return launches


def _launches(
    kernel: Any, call: KernelCall, layout: Any, known: Mapping[str, Any], *written: str
) -> list[Launch]:
    """Return launches for short rows, for pieces of long rows, and to merge the pieces.

    A row is the edges of one node; for long rows see `CSREdges`. `known` are the other arguments.
    """
    by_row, heads = kernel is not attention.attention_source, call.heads.value
    if isinstance(layout, EdgeLayout):
        edges = layout.cached(by_destination if by_row else by_source, known["split"])
    else:
        edges = layout[not by_row]
    sizes, own = row_sizes(call.widest), by_head(known, heads, LEAST)
    own |= {"call": call, "most": 0, **with_options(sizes)}
    own["edges"] = edges if call.by_edge else edges._replace(ids=None)
    rows = len(call.query.data) if by_row else len(edges.indptr) - 1
    launches, pieces = [launch_of(kernel, (rows * heads,), own)], len(edges.owner)
    if not pieces:
        return launches
    parts = {
        name: known[name].new_empty(pieces, *known[name].shape[1:], dtype=torch.float32)
        for name in written
    }
    of_pieces = own | by_head(parts, heads, LEAST)
    of_pieces |= with_options(sizes._replace(in_pieces=True))
    if "out" in parts:  # its rounding error is known when the pieces are merged
        of_pieces["rest"] = None
    launches.append(launch_of(kernel, (pieces * heads,), of_pieces))
    own["part_softmax"] = parts.get("softmax")
    own["before"] = call.rows.before if by_row else None
    for name in filter(BY_HEAD.__contains__, written):
        long = {"out": own[name], "parts": of_pieces[name]}
        long |= with_options(row_sizes(own[name].block.value))
        launches.append(launch_of(merge_pieces, (len(edges.rows) * heads,), own | long))
    return launches


class CSREdges(NamedTuple):
    """The edges in CSR format, grouped by destination or by source.

    Nodes with more edges than one program of a kernel computes are cut into pieces. Tensors have
    the sizes of `full_size`.
    """

    indptr: Tensor  # (nodes + 1,) int64, the first edge of each node; -1 after the last node
    neighbours: Tensor  # (E,) int32, the other end of each edge
    owner: Tensor  # (pieces,) int32, the node that each piece is of
    start: Tensor  # (pieces,) int64, its first edge
    rows: Tensor  # (long,) int32, the nodes in pieces; -1 after the last
    cuts: Tensor  # (long + 1,) int32, the first piece of each
    split: int  # the most edges of a piece, or of a node without pieces
    ids: Tensor | None  # (E,) int64, the id of each edge; None for 0, ..., E - 1


def by_destination(layout: EdgeLayout, split: int) -> CSREdges:
    """Group the edges by destination, and cut groups of more than `split` edges into pieces."""
    return _grouped(layout.row_starts, layout.sources(), layout.edge_ids, split)


def by_source(layout: EdgeLayout, split: int) -> CSREdges:
    """Group the edges by source, and cut groups of more than `split` edges into pieces."""
    ends = layout.destinations(), layout.sources()
    indptr, destinations, order = sort_edges(*ends, layout.num_dst, layout.num_src)
    ids = order if layout.edge_ids is None else layout.edge_ids[order]
    return _grouped(indptr, destinations, ids, split)


def _grouped(indptr: Tensor, neighbours: Tensor, ids: Tensor | None, split: int) -> CSREdges:
    degrees = indptr.diff()
    rows = (degrees > split).nonzero()[:, 0]
    counts = -(-degrees[rows] // split)
    cuts = pad(counts.cumsum(0), (1, 0))
    of, step = ragged_arange(counts)
    start = indptr[rows[of]] + step * split

    def grow(x: Tensor, value: int = 0, more: int = 0) -> Tensor:
        return pad(x, (0, full_size(len(x) - more) + more - len(x)), value=value)

    return CSREdges(
        grow(indptr, -1, more=1),
        grow(neighbours.int()),
        grow(rows[of].int()),
        grow(start, len(neighbours)),
        grow(rows.int(), -1),
        grow(cuts.int(), more=1),
        split,
        None if ids is None else grow(ids),
    )
