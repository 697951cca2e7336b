"""Triton attention for layouts in which each row attends to an interval of sources."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from graphut.attention.layout import EdgeLayout, IntervalLayout, cu_seqlens
from graphut.attention.triton.inputs import ActiveRows, KernelInputs
from graphut.attention.triton.kernels.interval import (
    cut_rows,
    interval_forward,
    interval_query,
    interval_source,
)
from graphut.attention.triton.sizes import FUSED, tile_sizes

_SPAN = 1024  # rows of a sentence that one program looks at


def forward(inputs: KernelInputs, out: Tensor, rest: Tensor | None, softmax: Tensor) -> None:
    """Write the output, its rounding error to `rest`, and each row's softmax maximum and sum."""
    arguments = _arguments(inputs)
    grid = arguments["first"].numel(), inputs.heads
    interval_forward[grid](out=out, rest=rest, softmax=softmax, **arguments)


def backward_rows(inputs: KernelInputs, to_query: Tensor, given: dict[str, Any]) -> None:
    """Write the query's gradient; write to `given` the bias gradient and `delta = out . to_out`."""
    arguments = _arguments(inputs)
    grid = arguments["first"].numel(), inputs.heads
    interval_query[grid](to_query=to_query, **arguments, **given)


def backward_sources(
    inputs: KernelInputs, to_key: Tensor, to_value: Tensor, given: dict[str, Any]
) -> None:
    """Write the gradients of key and value; `given` has the other arguments of the kernel."""
    arguments = _arguments(inputs)
    del arguments["blocks"]  # of rows; here the blocks are of sources
    blocks = inputs.layout.cached(source_blocks, arguments["block_n"])
    arguments |= {"first": blocks.first, "last": blocks.last}
    arguments["rows"] = inputs.active.first_row(blocks.seen_by)
    grid = blocks.first.numel(), inputs.heads
    interval_source[grid](to_key=to_key, to_value=to_value, **arguments, **given)


def _arguments(inputs: KernelInputs) -> dict[str, Any]:
    """Return the arguments of the interval kernels, including the fields of `RowBlocks`."""
    by_edge = inputs.edge_bias is not None or inputs.dropout > 0
    sizes = tile_sizes(max(inputs.widths), inputs.query.dtype, by_edge=by_edge)
    rows = row_blocks(inputs.layout, inputs.active, sizes.block_m)
    own = {"ids": inputs.layout.edge_ids, **asdict(sizes)}
    return inputs.arguments() | vars(rows) | own


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """Blocks of consecutive query rows, each within one sentence, and the sources of each row."""

    first: Tensor  # (bound,) int32, the first row of each block
    last: Tensor  # (bound,) int32, the row after its last
    blocks: Tensor  # (1,) int32, how many blocks there are; the rest of the table means nothing
    low: Tensor  # (rows,) int32, the first source of each row, and
    high: Tensor  # (rows,) int32, the end; from far away to 0 if the row has none
    shift: Tensor  # (rows,) int64, what to add to a source for the index of its edge


def row_blocks(layout: EdgeLayout, active: ActiveRows, block: int) -> RowBlocks:
    """Cut each sentence's query rows into blocks of `block` rows, without waiting for the GPU."""
    if active.nodes is None:
        return layout.cached(_all_rows, block)
    if block not in active.tables:  # the backward pass looks for what the forward pass made
        active.tables[block] = _cut(layout, active, block)
    return active.tables[block]


def _all_rows(layout: EdgeLayout, block: int) -> RowBlocks:
    return _cut(layout, ActiveRows(None, layout.num_dst, layout.num_dst), block)


def _cut(layout: EdgeLayout, active: ActiveRows, block: int) -> RowBlocks:
    assert isinstance(layout, IntervalLayout)
    lengths, rows = layout.dst_lengths, active.rows
    # A sentence has at most one block that is not full.
    bound = min(layout.cached(_most_blocks, block), rows, lengths.numel() + rows // block)
    cuts = active.first_row(layout.cached(cu_seqlens)[0])
    first, last, blocks, low, high = map(cuts.new_empty, (bound, bound, 1, rows, rows))
    table = RowBlocks(first, last, blocks, low, high, layout.lo.new_empty(rows))
    by_node = {"lo": layout.lo, "hi": layout.hi, "row_starts": layout.row_starts}
    longest = layout.cached(_longest)
    _launch_cut(lengths, longest, block, cuts=cuts, nodes=active.nodes, **by_node, **vars(table))
    return table


def _most_blocks(layout: EdgeLayout, block: int) -> int:
    return int((-(-layout.dst_lengths // block)).sum())


def _longest(layout: EdgeLayout) -> int:
    return max(layout.dst_lengths.tolist(), default=0)


def _launch_cut(lengths: Tensor, longest: int, block: int, **arguments: Tensor | None) -> None:
    grid = lengths.numel(), -(-longest // _SPAN)
    cut_rows[grid](**arguments, block_m=block, lanes=128, span=_SPAN, num_warps=1, **FUSED)


@dataclass(frozen=True, eq=False)
class SourceBlocks:
    """Blocks of consecutive sources, each within one sentence, and the rows that attend to them."""

    first: Tensor  # (blocks,) int32, the first source of each block
    last: Tensor  # (blocks,) int32, the source after its last
    seen_by: Tensor  # (2, blocks) int64, the first destination that may see each, and the end


def source_blocks(layout: EdgeLayout, block: int) -> SourceBlocks:
    """Cut the sources of each sentence into blocks, and find the rows that attend to each block.

    A block has at most `block` sources. In the layout, neither `lo` nor `hi` may decrease, as
    `IntervalLayout.is_monotone` tests.
    """
    assert isinstance(layout, IntervalLayout)
    lengths, cuts = layout.src_lengths, layout.cached(cu_seqlens)[1].int()
    bound = int((-(-lengths // block)).sum())
    first, last, blocks = map(cuts.new_empty, (bound, bound, 1))
    unknown = dict.fromkeys(("nodes", "lo", "hi", "row_starts", "low", "high", "shift"))
    longest = max(lengths.tolist(), default=0)
    _launch_cut(
        lengths, longest, block, cuts=cuts, first=first, last=last, blocks=blocks, **unknown
    )
    low, high = _filled(layout)
    seen_by = torch.stack(
        [torch.searchsorted(high, first.long(), right=True), torch.searchsorted(low, last.long())]
    )
    return SourceBlocks(first, last, seen_by)


def _filled(layout: IntervalLayout) -> tuple[Tensor, Tensor]:
    """Return `lo` and `hi`, changed for rows without sources such that both are non-decreasing."""
    some = layout.lo < layout.hi
    high = torch.where(some, layout.hi, 0).cummax(0).values
    low = torch.where(some, layout.lo, layout.num_src).flip(0).cummin(0).values.flip(0)
    return low, high
