"""Kernels that combine the results for the pieces of long rows, in the order of the pieces."""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import (
    INFINITY,
    finite,
    largest,
    load_tile,
    lost,
    store_row,
    store_softmax,
    total,
)


@triton.jit
def merge_outputs(
    parts: tl.tensor,  # (pieces, heads, width) float32
    part_softmax: tl.tensor,  # (pieces, heads, 2)
    out: tl.tensor,
    rest: tl.tensor,
    softmax: tl.tensor,
    slot: tl.tensor,
    long: tl.tensor,  # (long rows,) their nodes
    cuts: tl.tensor,  # (long rows + 1,) the first piece of each
    heads: tl.constexpr,
    width: tl.constexpr,
    block_width: tl.constexpr,
    block_p: tl.constexpr,
) -> None:
    """Combine the outputs of the pieces of a long row, weighted by their sums of exponentials."""
    item = tl.program_id(0) // heads
    head = tl.program_id(0) % heads
    row = tl.load(long + item)
    if slot is not None:
        row = tl.load(slot + row)
    if row < 0:
        return
    top = -INFINITY
    sums = 0.0
    acc = tl.full([block_width], 0.0, tl.float32)
    end = tl.load(cuts + item + 1)
    for at in range(tl.load(cuts + item), end, block_p):
        piece = at + tl.arange(0, block_p)
        mask = piece < end
        place = part_softmax + 2 * (piece * heads + head)
        scores = tl.load(place, mask=mask, other=-INFINITY)
        part_sums = tl.load(place + 1, mask=mask, other=0.0)
        part = load_tile(parts, head, piece, heads * width, mask, width, block_width)
        new = tl.maximum(top, largest(scores, 0))
        weights = tl.exp2(scores - finite(new)) * part_sums
        shrink = tl.exp2(top - finite(new))
        sums = sums * shrink + total(weights, 0)
        acc = acc * shrink + total(weights[:, None] * part, 0)
        top = new
    at_row = row.to(tl.int64) * heads + head
    acc = acc / tl.where(sums == 0.0, 1.0, sums)
    store_row(out + at_row * width, acc, width, block_width)
    if rest is not None:
        store_row(rest + at_row * width, lost(acc, out), width, block_width)
    store_softmax(softmax, at_row, top, sums, row >= 0)


@triton.jit
def merge_sums(
    parts: tl.tensor,  # (pieces, heads, width) float32
    out: tl.tensor,  # (rows, heads, width)
    slot: tl.tensor,
    long: tl.tensor,
    cuts: tl.tensor,
    heads: tl.constexpr,
    width: tl.constexpr,
    block_width: tl.constexpr,
    block_p: tl.constexpr,
) -> None:
    """Add up the gradients of the pieces of each long row, in the order of the pieces."""
    item = tl.program_id(0) // heads
    head = tl.program_id(0) % heads
    row = tl.load(long + item)
    if slot is not None:
        row = tl.load(slot + row)
    if row < 0:
        return
    acc = tl.full([block_width], 0.0, tl.float32)
    end = tl.load(cuts + item + 1)
    for at in range(tl.load(cuts + item), end, block_p):
        piece = at + tl.arange(0, block_p)
        part = load_tile(parts, head, piece, heads * width, piece < end, width, block_width)
        acc += total(part, 0)
    at_row = row.to(tl.int64) * heads + head
    store_row(out + at_row * width, acc, width, block_width)
