"""Launches of the attention kernels, and the edges and tile sizes that they read.

Intervals of sources are computed in dense tiles, and the edges of other layouts one by one. Tile
sizes depend on head size and dtype alone, so that no kernel is compiled or tuned in the middle of
training. A float32 product is the sum of three TF32 products, which is exact to about 1e-6 and 5
times as fast as a float32 product on the ordinary units (measured on an H200).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphut.attention.kernel_library import sort_edges
from graphut.attention.layout import EdgeLayout, IntervalLayout, full_size, seen_by, upload
from graphut.attention.ragged import ragged_arange
from graphut.attention.triton.inputs import (
    Launch,
    TileSizes,
    heads_of,
    kernel_call,
    launch_of,
    padded,
    with_options,
)
from graphut.attention.triton.kernels import attention

WIDEST = 512  # features of a head; shared memory holds no tile of wider heads
SPLIT = 512  # edges of a row, or of a source, above which several programs compute it
PROGRAMS = 4096  # where programs take several rows: as many as run at the same time
BY_HEAD = {"out", "to_out", "to_query", "to_key", "to_value"}
# By the features of a head. Up to 64 features these were the fastest of 30 on an H200.
FLOAT32 = {
    16: TileSizes(64, 32, 4, 2),
    32: TileSizes(64, 32, 4, 2),
    64: TileSizes(32, 64, 4, 2),
    128: TileSizes(32, 16, 8, 2),
    256: TileSizes(16, 16, 8, 1),
    512: TileSizes(16, 16, 8, 1),
}
HALF = {
    16: TileSizes(64, 128, 4, 2),
    32: TileSizes(64, 128, 4, 2),
    64: TileSizes(64, 128, 4, 2),
    128: TileSizes(64, 64, 8, 2),
    256: TileSizes(32, 32, 8, 1),
    512: TileSizes(16, 16, 8, 1),
}


class IntervalTables(NamedTuple):
    """The edges of a layout in which neither `lo` nor `hi` decreases, all int64."""

    lo: Tensor  # (N_dst,), the first source of each destination
    hi: Tensor  # (N_dst,), the end of its sources
    seen_from: Tensor  # (N_src,), the first destination that may see a source; -1 after the last
    seen_until: Tensor  # (N_src,), the end of these destinations; -1 after the last source
    row_starts: Tensor | None  # (N_dst,), the index of each destination's first edge
    ids: Tensor | None  # (E,), the id of each edge; None if it is the index


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
    ids: Tensor | None  # (E,) int64, the id of each edge; None for 0, ..., E - 1
    split: int  # the most edges of a piece, or of a node without pieces


# CSR edges are by destination, and by source if there is a backward pass.
Edges: TypeAlias = IntervalTables | list[CSREdges]
WAYS = ("in_", "out_")


def edges_of(layout: EdgeLayout, width: int, *, by_edge: bool, both: bool) -> Edges:
    """Return the edges of a layout, for kernels whose heads have `width` features.

    Edges have ids if kernels read tensors `by_edge`. CSR layouts are grouped by source, too, if
    `both`.
    """
    is_dense = isinstance(layout, IntervalLayout) and layout.is_monotone
    if is_dense and padded(width) <= WIDEST:
        assert isinstance(layout, IntervalLayout)
        starts, ids = (layout.cached(_row_starts), layout.edge_ids) if by_edge else (None, None)
        return IntervalTables(layout.lo, layout.hi, *layout.cached(seen_by), starts, ids)
    found = [layout.cached(make, SPLIT) for make in (by_destination, by_source)[: 1 + both]]
    return found if by_edge else [edges._replace(ids=None) for edges in found]


def _row_starts(layout: EdgeLayout) -> Tensor:
    return upload([layout.original().row_starts[:-1]], layout.device)[0]


def by_destination(layout: EdgeLayout, split: int) -> CSREdges:
    """Group the edges by destination, and cut groups of more than `split` edges into pieces."""
    host = layout.original()
    return _grouped(host.row_starts, host.sources(), host.edge_ids, split, layout.device)


def by_source(layout: EdgeLayout, split: int) -> CSREdges:
    """Group the edges by source, and cut groups of more than `split` edges into pieces."""
    host = layout.original()
    ends = host.destinations(), host.sources()
    indptr, destinations, order = sort_edges(*ends, host.num_dst, host.num_src)
    ids = order if host.edge_ids is None else host.edge_ids[order]
    return _grouped(indptr, destinations, ids, split, layout.device)


def _grouped(
    indptr: Tensor, neighbours: Tensor, ids: Tensor | None, split: int, device: torch.device
) -> CSREdges:
    """Return edges on a device, where those of a layout from the CPU arrive in one copy."""
    degrees = indptr.diff()
    rows = (degrees > split).nonzero()[:, 0]
    counts = -(-degrees[rows] // split)
    of, step = ragged_arange(counts)

    def grow(x: Tensor, value: int = 0, more: int = 0) -> Tensor:
        return pad(x, (0, full_size(len(x) - more) + more - len(x)), value=value)

    found = [
        grow(indptr, -1, more=1),
        grow(neighbours.int()),
        grow(rows[of].int()),
        grow(indptr[rows[of]] + step * split, len(neighbours)),
        grow(rows.int(), -1),
        grow(pad(counts.cumsum(0), (1, 0)).int(), more=1),
        *([] if ids is None else [grow(ids)]),
    ]
    edges = dict(zip(CSREdges._fields, upload(found, device), strict=False))
    return CSREdges(**{"ids": None, "split": split, **edges})


def tensors_of(edges: Edges | CSREdges, prefix: str = "") -> dict[str, Tensor]:
    """Return the tensors of edges by names that begin with a prefix."""
    groups = dict(zip(WAYS, edges, strict=False)) if isinstance(edges, list) else {"": edges}
    return {
        f"{prefix}{way}{name}": x
        for way, group in groups.items()
        for name, x in group._asdict().items()
        if isinstance(x, Tensor)
    }


def edges_from(inputs: Mapping[str, Tensor], prefix: str = "") -> Edges:
    """Return the edges whose tensors have names that begin with a prefix."""
    if f"{prefix}lo" in inputs:
        known: dict[str, Any] = {x: inputs.get(prefix + x) for x in IntervalTables._fields}
        return IntervalTables(**known)
    ways = [f"{prefix}{way}" for way in WAYS if f"{prefix}{way}indptr" in inputs]
    return [csr_edges(inputs, way) for way in ways]


def csr_edges(inputs: Mapping[str, Tensor], prefix: str) -> CSREdges:
    """Return the edges of one way whose tensors have names that begin with a prefix."""
    known: dict[str, Any] = {x: inputs.get(prefix + x) for x in CSREdges._fields}
    return CSREdges(**known | {"split": SPLIT})


def launches_of(
    tensors: Sequence[Tensor],
    edges: Edges,
    known: Mapping[str, Any],
    *,
    backward: bool = False,
    **more: Any,
) -> list[Launch]:
    """Return launches that write `out` and `softmax` among `known`.

    In the `backward` pass, they write the gradients among `known`, and `out . to_out` to `delta`.
    `tensors` are query, key and value, `(n, H, D)`, and `more` are arguments of `kernel_call`.
    """
    is_dense, (rows, heads, _) = isinstance(edges, IntervalTables), tensors[0].shape
    least = 16 if is_dense else 4  # features of a head; tensor cores require 16
    call = kernel_call(tensors, least, **more)
    width = max(call.query.block.value, call.value.block.value)
    by_edge = call.bias is not None or call.drop is not None
    ways: Sequence[Any] = [edges, edges] if isinstance(edges, IntervalTables) else edges
    if is_dense:
        sizes, sources = (
            tile_sizes(width, tensors[0].dtype, by_edge=by_edge),
            len(ways[1].seen_from),
        )
    else:
        sizes, sources = row_sizes(width), len(ways[-1].indptr) - 1
    own = {**_by_head(known, heads, least), "call": call, **with_options(sizes)}
    kernels: list[tuple[Any, tuple[str, ...]]] = [(attention.attention_forward, ("out", "softmax"))]
    if backward:
        kernels = [(attention.attention_query, ("to_query",))]
        if known["to_key"] is not None:
            kernels += [(attention.attention_source, ("to_key", "to_value"))]
    launches = []
    numbers = (rows, sizes.block_m), (sources, sizes.block_n if is_dense else 1)
    for (kernel, written), way, (number, block) in zip(kernels, ways, numbers, strict=False):
        own |= {"edges": way, "most": number}
        items = -(-number // block) * heads
        if call.rows.number is not None and kernel is not attention.attention_source:
            items = min(items, PROGRAMS)
        launches.append(launch_of(kernel, (items,), own))
        if not is_dense and len(way.owner):
            launches += _in_pieces(kernel, sizes, own, {name: known[name] for name in written})
    return launches


def _by_head(known: Mapping[str, Any], heads: int, least: int) -> dict[str, Any]:
    return {
        name: heads_of(x, heads, least) if name in BY_HEAD and x is not None else x
        for name, x in known.items()
    }


def _in_pieces(
    kernel: Any, sizes: TileSizes, own: dict[str, Any], written: Mapping[str, Tensor]
) -> list[Launch]:
    """Return launches that compute the pieces of long rows, and merge them into what is written."""
    call, edges = own["call"], own["edges"]
    heads, pieces = call.heads.value, len(edges.owner)
    tables = {x: y.new_empty(pieces, *y.shape[1:], dtype=torch.float32) for x, y in written.items()}
    whole = own | {"part_softmax": tables.get("softmax")}
    whole["before"] = None if "to_key" in tables else call.rows.before
    parts = _by_head(tables, heads, 4)
    of_pieces = own | parts | {"most": pieces} | with_options(sizes._replace(in_pieces=True))
    launches = [launch_of(kernel, (pieces * heads,), of_pieces)]
    for name in filter(BY_HEAD.__contains__, written):
        merged = {"out": own[name], "parts": parts[name]}
        merged |= with_options(row_sizes(own[name].block.value))
        grid = (len(edges.rows) * heads,)
        launches.append(launch_of(attention.merge_pieces, grid, whole | merged))
    return launches


def tile_sizes(width: int, dtype: torch.dtype, *, by_edge: bool) -> TileSizes:
    """Return the sizes of dense tiles for heads of `width` features, a power of two.

    Tiles are smaller with `by_edge`, for calls with a bias or dropout, which need more registers.
    """
    sizes = (FLOAT32 if dtype == torch.float32 else HALF)[width]
    return sizes._replace(block_n=min(sizes.block_n, 32)) if by_edge else sizes


def row_sizes(width: int) -> TileSizes:
    """Return the sizes of programs for single rows, for heads with `width` features."""
    return TileSizes(1, max(4, min(32, 2048 // width)), 2 if width <= 64 else 4, 3)
