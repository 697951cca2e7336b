"""Attention over interval layouts: their blocks of rows and sources, and the kernels launched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphut.attention.layout import EdgeLayout, IntervalLayout
from graphut.attention.triton.inputs import ActiveRows, KernelInputs
from graphut.attention.triton.kernels.interval import (
    cut_rows,
    interval_forward,
    interval_query,
    interval_source,
)
from graphut.attention.triton.sizes import TileSizes, tile_sizes


def forward(inputs: KernelInputs, out: Tensor, rest: Tensor | None, lse: Tensor) -> None:
    """Write the output, what rounding took from it, and the log-sum-exp."""
    sizes = _sizes(inputs)
    blocks = row_blocks(inputs.layout, inputs.active, sizes.block_m)
    interval_forward[(blocks.first.numel(), inputs.heads)](
        out=out,
        rest=rest,
        lse=lse,
        first=blocks.first,
        last=blocks.last,
        blocks=blocks.blocks,
        **_arguments(inputs, sizes),
    )


def backward_rows(inputs: KernelInputs, to_query: Tensor, given: dict[str, Any]) -> None:
    """Write the gradients of queries and bias, and `delta`."""
    sizes = _sizes(inputs)
    blocks = row_blocks(inputs.layout, inputs.active, sizes.block_m)
    interval_query[(blocks.first.numel(), inputs.heads)](
        to_query=to_query,
        first=blocks.first,
        last=blocks.last,
        blocks=blocks.blocks,
        **_arguments(inputs, sizes),
        **given,
    )


def backward_sources(
    inputs: KernelInputs, to_key: Tensor, to_value: Tensor, given: dict[str, Any]
) -> None:
    """Write the gradients of keys and values."""
    sizes = _sizes(inputs)
    blocks = inputs.layout.derive(source_blocks, sizes.block_n)
    interval_source[(blocks.first.numel(), inputs.heads)](
        to_key=to_key,
        to_value=to_value,
        first=blocks.first,
        last=blocks.last,
        rows=inputs.active.first_row(blocks.seen_by),
        **_arguments(inputs, sizes),
        **given,
    )


def _arguments(inputs: KernelInputs, sizes: TileSizes) -> dict[str, Any]:
    layout = inputs.layout
    assert isinstance(layout, IntervalLayout)
    return inputs.arguments() | {
        "nodes": inputs.active.nodes,
        "lo": layout.lo,
        "hi": layout.hi,
        "row_starts": layout.row_starts,
        "ids": layout.edge_ids,
        "block_m": sizes.block_m,
        "block_n": sizes.block_n,
        "num_warps": sizes.num_warps,
        "num_stages": sizes.num_stages,
    }


def _sizes(inputs: KernelInputs) -> TileSizes:
    sentences = max(1, inputs.layout.dst_lengths.numel())
    rows = -(-inputs.active.rows // sentences)
    return tile_sizes(max(inputs.widths), inputs.query.dtype, rows)


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """Blocks of consecutive rows of one sentence each."""

    first: Tensor  # (bound,) int32, the first row of each block
    last: Tensor  # (bound,) int32, the row after its last
    blocks: Tensor  # (1,) int32, how many blocks there are; the rest of the table means nothing


def row_blocks(layout: EdgeLayout, active: ActiveRows, block: int) -> RowBlocks:
    """Return the rows of each sentence, cut in blocks; nothing waits for the device."""
    return layout.derive(_all_rows, block) if active.nodes is None else _cut(layout, active, block)


def _all_rows(layout: EdgeLayout, block: int) -> RowBlocks:
    return _cut(layout, ActiveRows(None, layout.num_dst, layout.num_dst), block)


def _cut(layout: EdgeLayout, active: ActiveRows, block: int) -> RowBlocks:
    lengths = layout.dst_lengths
    # A sentence has at most one block that is not full.
    bound = min(
        int((-(-lengths // block)).sum()), active.rows, lengths.numel() + active.rows // block
    )
    cuts = active.first_row(layout.derive(sentence_cuts))
    table = RowBlocks(*(cuts.new_empty(size) for size in (bound, bound, 1)))
    cut_rows[(lengths.numel(),)](
        cuts, table.first, table.last, table.blocks, block_m=block, lanes=128, num_warps=1
    )
    return table


def sentence_cuts(layout: EdgeLayout) -> Tensor:
    """Return the first destination of each sentence, `(sentences + 1,)`."""
    return _starts(layout.dst_lengths).to(layout.device)


@dataclass(frozen=True, eq=False)
class SourceBlocks:
    """Blocks of consecutive sources of one sentence each, and the destinations that see them."""

    first: Tensor  # (blocks,) int32, the first source of each block
    last: Tensor  # (blocks,) int32, the source after its last
    seen_by: Tensor  # (2, blocks) int64, the first destination that may see it, and the end


def source_blocks(layout: EdgeLayout, block: int) -> SourceBlocks:
    """Return the sources of a monotone layout, cut in blocks."""
    assert isinstance(layout, IntervalLayout)
    lengths = layout.src_lengths
    counts = -(-lengths // block)
    sentence = torch.repeat_interleave(counts)
    step = torch.arange(sentence.numel()) - _starts(counts)[sentence]
    first = _starts(lengths)[sentence] + step * block
    last = torch.minimum(first + block, _starts(lengths)[sentence + 1])
    first, last = first.to(layout.device), last.to(layout.device)
    low, high = _filled(layout)
    seen_by = torch.stack(
        [torch.searchsorted(high, first, right=True), torch.searchsorted(low, last)]
    )
    return SourceBlocks(first.int(), last.int(), seen_by)


def _filled(layout: IntervalLayout) -> tuple[Tensor, Tensor]:
    """Return `lo` and `hi` without a decrease: rows without in-edges take a neighbour's."""
    some = layout.lo < layout.hi
    high = torch.where(some, layout.hi, 0).cummax(0).values
    low = torch.where(some, layout.lo, layout.num_src).flip(0).cummin(0).values.flip(0)
    return low, high


def _starts(lengths: Tensor) -> Tensor:
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
