"""Triton attention for layouts in which each row attends to an interval of sources."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from graphut.attention.layout import EdgeLayout, IntervalLayout, cu_seqlens
from graphut.attention.triton.inputs import KernelInputs, Launch
from graphut.attention.triton.kernels.interval import (
    interval_forward,
    interval_query,
    interval_source,
)
from graphut.attention.triton.sizes import tile_sizes


def forward(
    inputs: KernelInputs, out: Tensor, rest: Tensor | None, softmax: Tensor
) -> list[Launch]:
    """Write the output, its rounding error to `rest`, and each row's softmax maximum and sum."""
    arguments, tables = _arguments(inputs)
    arguments |= {"blocks": tables.rows, "out": out, "rest": rest, "softmax": softmax}
    return [Launch(interval_forward, (len(tables.rows), inputs.heads), arguments)]


def backward_rows(inputs: KernelInputs, to_query: Tensor, given: dict[str, Any]) -> list[Launch]:
    """Write the query's gradient; write to `given` the bias gradient and `delta = out . to_out`."""
    arguments, tables = _arguments(inputs)
    arguments |= {"blocks": tables.rows, "to_query": to_query} | given
    return [Launch(interval_query, (len(tables.rows), inputs.heads), arguments)]


def backward_sources(
    inputs: KernelInputs, to_key: Tensor, to_value: Tensor, given: dict[str, Any]
) -> list[Launch]:
    """Write the gradients of key and value; `given` has the other arguments of the kernel."""
    arguments, tables = _arguments(inputs)
    arguments |= {"blocks": tables.sources, "to_key": to_key, "to_value": to_value} | given
    arguments |= inputs.source_arguments(to_key, to_value)
    return [Launch(interval_source, (len(tables.sources), inputs.heads), arguments)]


def _arguments(inputs: KernelInputs) -> tuple[dict[str, Any], IntervalTables]:
    """Return the arguments that the interval kernels share, and the tables of the layout."""
    by_edge = inputs.edge_bias is not None or inputs.dropout > 0
    sizes = tile_sizes(max(inputs.widths), inputs.query.dtype, by_edge=by_edge)
    tables = inputs.tables
    if tables is None:
        tables = inputs.layout.cached(interval_tables, sizes.block_m, sizes.block_n)
    by_node = {"lo": tables.lo, "hi": tables.hi, "row_starts": tables.row_starts}
    return inputs.arguments() | by_node | {"ids": tables.ids, **asdict(sizes)}, tables


@dataclass(frozen=True, eq=False)
class IntervalTables:
    """The edges of a layout for the interval kernels, and the blocks that their programs compute.

    A block of rows or sources is within one sentence. In each block of rows, the active ones among
    as many consecutive destinations come first.
    """

    lo: Tensor  # (N_dst,) int64, the first source of each destination
    hi: Tensor  # (N_dst,) int64, the end of its sources
    row_starts: Tensor  # (N_dst + 1,) int64, the index of its first edge
    ids: Tensor | None  # (E,) int64, the id of each edge; None if it is the index
    # (blocks, 3) int32: first destination and end of the sentence, index of the first row in it
    rows: Tensor
    # (blocks, 4) int32: first source and end, first destination that may see one of them, and end
    sources: Tensor


def interval_tables(layout: EdgeLayout, block_m: int, block_n: int) -> IntervalTables:
    """Cut the layout into blocks of rows and of sources, without waiting for the GPU.

    In the layout, neither `lo` nor `hi` may decrease, as `IntervalLayout.is_monotone` tests.
    """
    assert isinstance(layout, IntervalLayout)
    dst_cuts, src_cuts = layout.cached(cu_seqlens)
    rows = torch.stack(_cut(layout.dst_lengths, dst_cuts, block_m), 1)
    begin, end, offset = _cut(layout.src_lengths, src_cuts, block_n)
    first, last = begin + offset, torch.minimum(begin + offset + block_n, end)
    low, high = _filled(layout)
    seen_by = torch.searchsorted(high, first, right=True), torch.searchsorted(low, last)
    sources = torch.stack([first, last, *seen_by], 1)
    edges = layout.lo, layout.hi, layout.row_starts, layout.edge_ids
    return IntervalTables(*edges, rows.int(), sources.int())


def _cut(lengths: Tensor, cuts: Tensor, block: int) -> tuple[Tensor, Tensor, Tensor]:
    """Cut sentences into blocks; return begin and end of the sentence and the offset of each."""
    number = int((-(-lengths // block)).sum())  # lengths are on the CPU, cuts on the device
    blocks = -(-cuts.diff() // block)
    ends = blocks.cumsum(0)
    block_id = torch.arange(number, device=cuts.device)
    sentence = torch.searchsorted(ends, block_id, right=True)
    offset = (block_id - (ends - blocks)[sentence]) * block
    return cuts[sentence], cuts[sentence + 1], offset


def _filled(layout: IntervalLayout) -> tuple[Tensor, Tensor]:
    """Return `lo` and `hi`, changed for rows without sources such that both are non-decreasing."""
    some = layout.lo < layout.hi
    high = torch.where(some, layout.hi, 0).cummax(0).values
    low = torch.where(some, layout.lo, layout.num_src).flip(0).cummin(0).values.flip(0)
    return low, high
