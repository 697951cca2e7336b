"""Triton attention for layouts in which each row attends to an interval of sources."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphut.attention.layout import EdgeLayout, IntervalLayout, cu_seqlens
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
        edges = edges.cached(interval_tables, sizes.block_m, sizes.block_n, call.by_edge)
    heads, own = call.heads.value, {"call": call, "edges": edges, **with_options(sizes)}
    own |= by_head(known, heads, LEAST)
    kernel = attention.attention_query if backward else attention.attention_forward
    launches = [launch_of(kernel, (len(edges.row_blocks), heads), own)]
    if backward and known["to_key"] is not None:
        grid = len(edges.source_blocks), heads
        launches.append(launch_of(attention.attention_source, grid, own))
    return launches


class IntervalTables(NamedTuple):
    """The edges of a layout as an argument of kernels, and the blocks that programs compute.

    A block of rows or sources is within one sentence. In each block of rows, the active ones among
    as many consecutive destinations come first.
    """

    lo: Tensor  # (N_dst,) int64, the first source of each destination
    hi: Tensor  # (N_dst,) int64, the end of its sources
    row_starts: Tensor | None  # (N_dst,) int64, the index of its first edge
    ids: Tensor | None  # (E,) int64, the id of each edge; None if it is the index
    # (blocks, 3) int32: first destination and end of the sentence, index of the first row in it
    row_blocks: Tensor
    # (blocks, 4) int32: first source and end, first destination that may see one of them, and end
    source_blocks: Tensor


def interval_tables(
    layout: EdgeLayout, block_m: int, block_n: int, by_edge: bool
) -> IntervalTables:
    """Cut the layout into blocks of rows and of sources, without waiting for the GPU.

    In the layout, neither `lo` nor `hi` may decrease, as `IntervalLayout.is_monotone` tests. Edges
    have ids if kernels read them `by_edge`.
    """
    assert isinstance(layout, IntervalLayout)
    dst_cuts, src_cuts = layout.cached(cu_seqlens)
    rows = torch.stack(_cut(layout.dst_lengths, dst_cuts, block_m), 1)
    begin, end, offset = _cut(layout.src_lengths, src_cuts, block_n)
    first, last = begin + offset, torch.minimum(begin + offset + block_n, end)
    has_sources = layout.lo < layout.hi  # other rows are replaced by the ones before them
    low, high = (torch.where(has_sources, x, 0).cummax(0).values for x in (layout.lo, layout.hi))
    seen_by = torch.searchsorted(high, first, right=True), torch.searchsorted(low, last)
    sources = torch.stack([first, last, *seen_by], 1)
    starts, ids = (layout.row_starts[:-1], layout.edge_ids) if by_edge else (None, None)
    return IntervalTables(layout.lo, layout.hi, starts, ids, rows.int(), sources.int())


def _cut(lengths: Tensor, cuts: Tensor, block: int) -> tuple[Tensor, Tensor, Tensor]:
    """Cut sentences into blocks; return begin and end of the sentence and the offset of each."""
    number = int((-(-lengths // block)).sum())  # lengths are on the CPU, cuts on the device
    blocks = -(-cuts.diff() // block)
    ends = blocks.cumsum(0)
    block_id = torch.arange(number, device=cuts.device)
    sentence = torch.searchsorted(ends, block_id, right=True)
    offset = (block_id - (ends - blocks)[sentence]) * block
    return cuts[sentence], cuts[sentence + 1], offset
