"""Kernels that combine the results for the pieces of long rows, in the order of the pieces."""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import (
    INFINITY,
    goes_on,
    load_row,
    load_tile,
    lost,
    online_softmax,
    row_of,
    store_row,
    store_softmax,
    table_row,
    total,
)


@triton.jit
def locate(item, before, pieces):
    """Return whether there is anything to compute, the node, its row, and its range of pieces."""
    node = tl.load(pieces.rows + item)
    row = node
    do = row >= 0
    if before is not None:
        row, do = row_of(before, node, do)
    return do, node, row, tl.load(pieces.cuts + item), tl.load(pieces.cuts + item + 1)


@triton.jit
def merge_outputs(
    parts,
    part_softmax,
    out,
    rest,
    softmax,
    before,
    pieces,
    heads: tl.constexpr,
    block: tl.constexpr,
):
    """Combine the outputs of the pieces of a long row, weighted by their sums of exponentials."""
    head = tl.program_id(0) % heads
    do, _, row, begin, end = locate(tl.program_id(0) // heads, before, pieces)
    if not do:
        return
    top = -INFINITY
    sums = 0.0
    acc = tl.full([out.block], 0.0, tl.float32)
    for at in range(begin, end, block):
        piece = at + tl.arange(0, block)
        mask = piece < end
        place = part_softmax + 2 * (piece * heads + head)
        scores = tl.load(place, mask=mask, other=-INFINITY)
        part_sums = tl.load(place + 1, mask=mask, other=0.0)
        top, shrink, weights = online_softmax(top, scores, 0)
        weights *= part_sums
        sums = sums * shrink + total(weights, 0)
        part = load_tile(parts, head, piece, mask)
        acc = acc * shrink + total(weights[:, None] * part, 0)
    acc = acc / tl.where(sums == 0.0, 1.0, sums)
    store_row(out, head, row, acc)
    if rest is not None:
        store_row(rest, head, row, lost(acc, out))
    store_softmax(softmax, row.to(tl.int64) * heads + head, top, sums, do)


@triton.jit(do_not_specialize=["step", "last_step"])
def merge_sums(
    parts, out, before, stored, step, last_step, pieces, heads: tl.constexpr, block: tl.constexpr
):
    """Add up the gradients of the pieces of each long row, in the order of the pieces."""
    head = tl.program_id(0) % heads
    do, node, row, begin, end = locate(tl.program_id(0) // heads, before, pieces)
    if not do:
        return
    acc = tl.full([out.block], 0.0, tl.float32)
    for at in range(begin, end, block):
        piece = at + tl.arange(0, block)
        acc += total(load_tile(parts, head, piece, piece < end), 0)
    at = table_row(row, do, stored, step)
    if stored is not None:  # noqa: SIM102 (decided by the compiler)
        if goes_on(node, do, stored, step, last_step):
            acc += load_row(out, head, at)
    store_row(out, head, at, acc)
