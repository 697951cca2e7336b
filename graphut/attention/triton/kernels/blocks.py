"""Cuts the rows of each sentence into blocks."""

from __future__ import annotations

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import total


@triton.jit
def cut_rows(
    cuts: tl.tensor,  # (sentences + 1,) int32, the first row of each sentence
    first: tl.tensor,  # (blocks,) int32 out, the first row of each block
    last: tl.tensor,  # (blocks,) int32 out, the row after it
    blocks: tl.tensor,  # int32 out, how many blocks there are
    block_m: tl.constexpr,
    lanes: tl.constexpr,
) -> None:
    """One program a sentence: counts the blocks of those before it, and writes its own."""
    sentence = tl.program_id(0)
    lane = tl.arange(0, lanes)
    before = tl.full([lanes], 0, tl.int32)
    for start in range(0, sentence, lanes):
        other = start + lane
        mask = other < sentence
        begin = tl.load(cuts + other, mask=mask, other=0)
        end = tl.load(cuts + other + 1, mask=mask, other=0)
        before += (end - begin + block_m - 1) // block_m
    place = total(before, 0)
    begin = tl.load(cuts + sentence)
    end = tl.load(cuts + sentence + 1)
    for start in range(begin, end, block_m * lanes):
        row = start + lane * block_m
        block = place + (row - begin) // block_m
        tl.store(first + block, row, mask=row < end)
        tl.store(last + block, tl.minimum(row + block_m, end), mask=row < end)
    if sentence == tl.num_programs(0) - 1:
        tl.store(blocks, place + (end - begin + block_m - 1) // block_m)
