"""Kernels that combine the results for the pieces of long rows, in the order of the pieces."""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import (
    INFINITY,
    finite,
    goes_on,
    largest,
    load_row,
    load_tile,
    lost,
    row_of,
    store_row,
    store_softmax,
    table_row,
    total,
)


@triton.jit
def merge_outputs(
    parts: tl.tensor,  # (pieces, heads, width) float32
    part_softmax: tl.tensor,  # (pieces, heads, 2)
    out: tl.tensor,
    rest: tl.tensor,
    softmax: tl.tensor,
    before: tl.tensor,
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
    do = row >= 0
    if before is not None:
        row, do = row_of(before, row, do)
    if not do:
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
    store_softmax(softmax, at_row, top, sums, do)


@triton.jit(do_not_specialize=["num_src", "step", "last_step"])
def merge_sums(
    parts: tl.tensor,  # (pieces, heads, width) float32
    out: tl.tensor,  # (rows, heads, width)
    before: tl.tensor,
    long: tl.tensor,
    cuts: tl.tensor,
    settled: tl.tensor,
    num_src: tl.tensor,
    step: tl.tensor,
    last_step: tl.tensor,
    out_stride: tl.tensor,
    heads: tl.constexpr,
    width: tl.constexpr,
    block_width: tl.constexpr,
    block_p: tl.constexpr,
) -> None:
    """Add up the gradients of the pieces of each long row, in the order of the pieces."""
    item = tl.program_id(0) // heads
    head = tl.program_id(0) % heads
    node = tl.load(long + item)
    row = node
    do = row >= 0
    if before is not None:
        row, do = row_of(before, node, do)
    if not do:
        return
    acc = tl.full([block_width], 0.0, tl.float32)
    end = tl.load(cuts + item + 1)
    for at in range(tl.load(cuts + item), end, block_p):
        piece = at + tl.arange(0, block_p)
        part = load_tile(parts, head, piece, heads * width, piece < end, width, block_width)
        acc += total(part, 0)
    out += table_row(row, do, settled, num_src, step).to(tl.int64) * out_stride + head * width
    if settled is not None:  # noqa: SIM102 (decided by the compiler)
        if goes_on(node, do, settled, step, last_step):
            acc += load_row(out, width, block_width)
    store_row(out, acc, width, block_width)
