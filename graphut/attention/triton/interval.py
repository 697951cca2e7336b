"""Triton attention for layouts in which each row attends to an interval of sources."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from graphut.attention.layout import EdgeLayout, IntervalLayout, seen_by
from graphut.attention.triton.inputs import KernelCall, Launch, by_head, launch_of, with_options
from graphut.attention.triton.kernels import attention
from graphut.attention.triton.sizes import tile_sizes

LEAST = 16  # features of a head, as tensor cores require


def launches_of(
    call: KernelCall, edges: Any, known: Mapping[str, Any], *, backward: bool = False
) -> list[Launch]:
    """Return launches that write `out`, `rest`, its rounding error, and `softmax`.

    In the `backward` pass, they write the gradients among `known`, and `out . to_out` to `delta`.
    """
    sizes = tile_sizes(call.widest, call.query.data.dtype, by_edge=call.by_edge)
    if not isinstance(edges, IntervalTables):
        edges = edges.cached(interval_tables, call.by_edge)
    heads, rows, sources = call.heads.value, len(call.query.data), len(edges.seen_from)
    own = {"call": call, "edges": edges, "most": rows, **with_options(sizes)}
    own |= by_head(known, heads, LEAST)
    kernel = attention.attention_query if backward else attention.attention_forward
    launches = [launch_of(kernel, (-(-rows // sizes.block_m), heads), own)]
    if backward and known["to_key"] is not None:
        grid = -(-sources // sizes.block_n), heads
        launches.append(launch_of(attention.attention_source, grid, own | {"most": sources}))
    return launches


class IntervalTables(NamedTuple):
    """The edges of a layout as an argument of kernels, all int64."""

    lo: Tensor  # (N_dst,), the first source of each destination
    hi: Tensor  # (N_dst,), the end of its sources
    seen_from: Tensor  # (N_src,), the first destination that may see a source; -1 after the last
    seen_until: Tensor  # (N_src,), the end of these destinations; -1 after the last source
    row_starts: Tensor | None  # (N_dst,), the index of each destination's first edge
    ids: Tensor | None  # (E,), the id of each edge; None if it is the index


def interval_tables(layout: EdgeLayout, by_edge: bool) -> IntervalTables:
    """Return the tables of a layout in which neither `lo` nor `hi` decreases.

    Edges have ids if kernels read them `by_edge`.
    """
    assert isinstance(layout, IntervalLayout)
    starts, ids = (layout.row_starts[:-1], layout.edge_ids) if by_edge else (None, None)
    return IntervalTables(layout.lo, layout.hi, *layout.cached(seen_by), starts, ids)
