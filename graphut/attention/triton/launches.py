"""Launches of the attention kernels, and their arguments: edges, tile sizes and tensors.

Intervals of sources are computed in dense tiles, and the edges of other layouts one by one. Tile
sizes depend on head size and dtype alone, so that no kernel is compiled or tuned in the middle of
training. A float32 product is the sum of three TF32 products, which is exact to about 1e-6 and 5
times as fast as a float32 product on the ordinary units (measured on an H200).

The compiler makes a variant of a kernel for each None and each `constant` among its arguments, and
for integers that are 1 or multiples of 16.
"""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from graphut.attention.dropout import signed_threshold
from graphut.attention.kernel_library import sort_edges
from graphut.attention.layout import EdgeLayout, IntervalLayout, full_size, seen_by, upload
from graphut.attention.triton.kernels import attention

OPTIONS = ("num_warps", "num_stages")  # of a launch
constant = lru_cache(None, typed=True)(tl.constexpr)  # what a kernel is compiled for


class Launch(NamedTuple):
    """A call of a kernel that has not been made yet."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]

    def __call__(self) -> None:
        """Launch the kernel."""
        self.kernel[self.grid](**self.arguments)


def launch_of(kernel: Any, grid: tuple[int, ...], known: Mapping[str, Any]) -> Launch:
    """Return a launch that takes the arguments of a kernel, and its options, by their names."""
    arguments = {name: known[name] for name in kernel.arg_names}
    options = {name: known[name] for name in OPTIONS if name in known}
    # Triton 3.9 warns if it is not told whether to fuse multiplications and additions.
    return Launch(kernel, grid, {**arguments, **options, "enable_fp_fusion": True})


def named(kind: Any, known: Mapping[str, Any]) -> Any:
    """Return a named tuple of type `kind` from `known`; fields that it lacks are None."""
    return kind(*map(known.get, kind._fields))


class TileSizes(NamedTuple):
    """The tile sizes and the launch options of a kernel, or constants."""

    block_m: Any  # rows; 1 in kernels for single rows, which do not use tensor cores
    block_n: Any  # sources, edges, or columns of a product
    num_warps: Any  # of a program
    num_stages: Any  # tiles in flight
    precision: Any = "tf32x3"  # of float32 products
    block_k: Any = 0  # columns of the left factor, where a product has many


@cache
def with_options(sizes: TileSizes) -> dict[str, Any]:
    """Return the argument `sizes` of a kernel, in constants, and the options of its launch."""
    return {**sizes._asdict(), "sizes": TileSizes(*map(constant, sizes))}


class Heads(NamedTuple):
    """A tensor `(rows, heads, width)` each row of which has no gaps: see `packed`."""

    data: Tensor
    stride: int  # from one row to the next
    width: tl.constexpr
    block: tl.constexpr  # a power of two; kernels load as many features of a head


class Rows(NamedTuple):
    """The destination of each query row of a call."""

    nodes: Tensor | None  # (rows,) ids, sorted; None if row i is destination i
    before: Tensor | None  # (num_dst + 1,) int32, number of rows before each destination
    number: Tensor | None = None  # int32, the number of rows, if only the device knows it


class Dropout(NamedTuple):
    """The seed and the probability of dropout, as `graphut.attention.dropout` reads them."""

    seed: Tensor  # int64
    threshold: int  # below which a hash is dropped, as a 32-bit pattern
    keep: float  # factor of what is kept


class KernelCall(NamedTuple):
    """The inputs of an attention call.

    Key and value have one row for each source. Or if they are stored, they hold all steps, `(steps
    * stored_size, ...)`. A step stores only some sources; `table_row` finds the latest row of each.

    Constants come first, and kernels compare no named tuple with None: Triton 3.5 and 3.6 cannot
    compile the comparison, and lose constants that follow a None.
    """

    query: Heads  # by row
    key: Heads  # by source, as `value`
    value: Heads
    heads: tl.constexpr
    bias_columns: tl.constexpr  # 1 or the number of heads; 0 without a bias
    is_stored: tl.constexpr
    rows: Rows
    scale: float  # factor of the scores
    drop: Dropout | None
    bias: Tensor | None = None  # (edges, bias_columns), added to the scores, by edge id; no gaps
    settled: Tensor | None = None  # (N_src,) int32, the last step that stores a source; else 1
    stored_size: int = 0


def heads_of(x: Tensor, heads: int, least: int) -> Heads:
    """Return `(n, H, D)` or `(n, H * D)` for kernels that load at least `least` features."""
    width = x.shape[2] if x.dim() == 3 else x.shape[1] // heads
    return Heads(x, x.stride(0), constant(width), constant(padded(width, least)))


def dropout_of(p: float, seed: Any) -> Dropout | None:
    """Return the arguments of dropout with probability `p`, or None if `p` is 0."""
    return Dropout(seed, signed_threshold(p), 1.0 / (1.0 - p)) if p else None


def packed(rows: Tensor) -> Tensor:
    """Return `rows`, `(n, H, D)`, without gaps inside a row; copy only if necessary."""
    heads, feats = rows.shape[1:]
    dense = (feats <= 1 or rows.stride(2) == 1) and (heads <= 1 or rows.stride(1) == feats)
    return rows if dense else rows.contiguous()


def padded(width: int, least: int = 16) -> int:
    """Round `width` up to a power of two, by default of at least 16, as tensor cores require."""
    return max(least, 1 << (width - 1).bit_length())


WIDEST = 256  # features of a head; shared memory of some GPUs holds no tile of wider heads
PROGRAMS = 4096  # where programs take several rows: as many as run at the same time
BY_HEAD = {"out", "to_out", "to_query", "to_key", "to_value"}
# By the most features of a head. Up to 64 features these were the fastest of 30 on an H200.
FLOAT32 = {
    32: TileSizes(64, 32, 4, 2),
    64: TileSizes(32, 64, 4, 2),
    128: TileSizes(32, 16, 8, 2),
    WIDEST: TileSizes(16, 16, 8, 1),
}
HALF = {
    64: TileSizes(64, 128, 4, 2),
    128: TileSizes(64, 64, 8, 2),
    WIDEST: TileSizes(32, 32, 8, 1),
}


class IntervalTables(NamedTuple):
    """The edges of a layout in which neither `lo` nor `hi` decreases, all int64."""

    lo: Tensor  # (N_dst,), the first source of each destination
    hi: Tensor  # (N_dst,), the end of its sources
    seen_from: Tensor  # (N_src,), the first destination that may see a source; -1 after the last
    seen_until: Tensor  # (N_src,), the end of these destinations; -1 after the last source
    row_starts: Tensor | None  # (N_dst,), the id of each destination's first edge


class CSREdges(NamedTuple):
    """Edges in CSR format by destination or by source, padded to the sizes of `full_size`."""

    indptr: Tensor  # (nodes + 1,) int64, the first edge of each node; -1 after the last node
    neighbours: Tensor  # (E,) int32, the other end of each edge
    ids: Tensor | None  # (E,) int64, the id of each edge; None for 0, ..., E - 1


def edges_of(layout: EdgeLayout, width: int, *, by_edge: bool, both: bool) -> list[Any]:
    """Return the edges of a layout, for kernels whose heads have `width` features.

    They are `IntervalTables`, or `CSREdges` by destination and, if `both`, by source. They have ids
    if kernels read tensors `by_edge`: those of tables are in order.
    """
    in_order = isinstance(layout, IntervalLayout) and layout.is_monotone
    if in_order and padded(width) <= WIDEST and not (by_edge and layout.edge_ids is not None):
        assert isinstance(layout, IntervalLayout)
        starts = layout.cached(_row_starts) if by_edge else None
        return [IntervalTables(layout.lo, layout.hi, *layout.cached(seen_by), starts)]
    found = [layout.cached(make) for make in (by_destination, by_source)[: 1 + both]]
    return found if by_edge else [edges._replace(ids=None) for edges in found]


def _row_starts(layout: EdgeLayout) -> Tensor:
    return upload([layout.original().row_starts[:-1]], layout.device)[0]


def by_destination(layout: EdgeLayout) -> CSREdges:
    """Group the edges by destination."""
    host = layout.original()
    return _grouped(host.row_starts, host.sources(), host.edge_ids, layout.device)


def by_source(layout: EdgeLayout) -> CSREdges:
    """Group the edges by source."""
    host = layout.original()
    ends = host.destinations(), host.sources()
    indptr, destinations, order = sort_edges(*ends, host.num_dst, host.num_src)
    ids = order if host.edge_ids is None else host.edge_ids[order]
    return _grouped(indptr, destinations, ids, layout.device)


def _grouped(
    indptr: Tensor, neighbours: Tensor, ids: Tensor | None, device: torch.device
) -> CSREdges:
    """Return edges on a device; the edges of a layout from the CPU arrive in one copy."""
    more = full_size(len(neighbours)) - len(neighbours)
    found = [
        pad(indptr, (0, full_size(len(indptr) - 1) + 1 - len(indptr)), value=-1),
        *(pad(x, (0, more)) for x in (neighbours.int(), ids) if x is not None),
    ]
    indptr, neighbours, *rest = upload(found, device)
    return CSREdges(indptr, neighbours, rest[0] if rest else None)


def tensors_of(edges: Sequence[Any], prefix: str = "") -> dict[str, Tensor]:
    """Return the tensors of edges by names that begin with a prefix."""
    return {
        f"{prefix}{way}_{name}": x
        for way, each in zip(("in", "out"), edges, strict=False)
        for name, x in each._asdict().items()
        if isinstance(x, Tensor)
    }


def edges_from(inputs: Mapping[str, Tensor], prefix: str = "") -> list[Any]:
    """Return the edges whose tensors have names that begin with a prefix."""
    kinds: dict[str, Any] = {"in_lo": IntervalTables, "in_indptr": CSREdges, "out_indptr": CSREdges}
    found = [(x.partition("_")[0], kind) for x, kind in kinds.items() if prefix + x in inputs]
    return [
        named(kind, {x: inputs.get(f"{prefix}{way}_{x}") for x in kind._fields})
        for way, kind in found
    ]


def launches_of(
    tensors: Sequence[Tensor], edges: Sequence[Any], known: Mapping[str, Any], **more: Any
) -> list[Launch]:
    """Return launches that write `out` and `softmax` among `known`.

    Or if `to_out` is known, they write the other gradients, and `out . to_out` to `delta`.
    `tensors` are query, key and value, `(n, H, D)`, each packed; `more` are fields of `KernelCall`.
    """
    is_dense, (rows, heads, _) = isinstance(edges[0], IntervalTables), tensors[0].shape
    backward = "to_out" in known
    least = 16 if is_dense else 4  # features of a head; tensor cores require 16
    by_heads: list[Any] = [heads_of(x, heads, least) for x in tensors]
    columns = 0 if more.get("bias") is None else more["bias"].shape[1]
    constants: Any = map(constant, (heads, columns, more.get("stored_size", 0) > 0))
    call = KernelCall(*by_heads, *constants, **more)
    width = max(call.query.block.value, call.value.block.value)
    if is_dense:
        by_edge = call.bias is not None or call.drop is not None
        sizes = tile_sizes(width, tensors[0].dtype, by_edge=by_edge, backward=backward)
        edges = [edges[0]] * 2
        numbers = (rows, sizes.block_m), (len(edges[0].seen_from), sizes.block_n)
    else:
        sizes, numbers = row_sizes(width), ((rows, 1), (len(edges[-1].indptr) - 1, 1))
    own = {"call": call, **with_options(sizes)}
    for name, x in known.items():
        own[name] = heads_of(x, heads, least) if name in BY_HEAD else x
    kernels = [attention.attention_forward]
    if backward:
        kernels = [attention.attention_query, attention.attention_source]
    launches = []
    for kernel, each, (number, block) in zip(kernels, edges, numbers, strict=False):
        own |= {"edges": each, "most": number}
        items = -(-number // block) * heads
        if call.rows.number is not None and kernel is not attention.attention_source:
            items = min(items, PROGRAMS)
        launches.append(launch_of(kernel, (items,), own))
    return launches


def tile_sizes(width: int, dtype: torch.dtype, *, by_edge: bool, backward: bool) -> TileSizes:
    """Return the sizes of dense tiles for heads of `width` features.

    Tiles are smaller for what needs more registers: calls with a bias or dropout, `by_edge`, and
    gradients in float32.
    """
    is_wide = dtype == torch.float32
    tables = (FLOAT32 if is_wide else HALF).items()
    sizes = next(sizes for widest, sizes in tables if width <= widest)
    if backward and is_wide:
        sizes = sizes._replace(block_m=min(sizes.block_m, 32))
    small = by_edge or (backward and is_wide)
    return sizes._replace(block_n=min(sizes.block_n, 32)) if small else sizes


def row_sizes(width: int) -> TileSizes:
    """Return the sizes of programs for single rows, for heads with `width` features."""
    return TileSizes(1, max(4, min(32, 2048 // width)), 2 if width <= 64 else 4, 3)
