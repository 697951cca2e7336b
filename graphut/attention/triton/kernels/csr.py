"""Edges in CSR format: a program computes one head of a row or a piece of a row."""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import (
    INFINITY,
    goes_on,
    load_tile,
    lost,
    online_softmax,
    row_of,
    store_tile,
    store_two,
    table_row,
    total,
)


@triton.jit
def locate(call, edges, sizes, by_row: tl.constexpr):
    """Find the row (or the source, unless `by_row`) or the piece of one that a program computes.

    Returns `(do, head, row, place, begin, end)`: whether there is anything to compute, the head,
    the row, where the result goes, and the range of edges. Rows of more than `split` edges are
    computed in pieces only.
    """
    item = tl.program_id(0) // call.heads
    place = item.to(tl.int64)
    if not sizes.in_pieces:
        row = place
        node = row
        if by_row and call.rows.nodes is not None:
            node = tl.load(call.rows.nodes + item).to(tl.int64)
        do = item >= 0
        if by_row and call.rows.number is not None:
            do = item < tl.load(call.rows.number)
        begin = tl.load(edges.indptr + node, mask=do, other=0)
        end = tl.load(edges.indptr + node + 1, mask=do, other=0)
        do = do & (end >= 0) & (end - begin <= edges.split)
    else:
        node = tl.load(edges.owner + item).to(tl.int64)
        row = node
        do = row >= 0
        if by_row and call.rows.before is not None:
            row, do = row_of(call.rows.before, node, do)
        begin = tl.load(edges.start + item)
        end = tl.minimum(begin + edges.split, tl.load(edges.indptr + node + 1))
    return do, tl.program_id(0) % call.heads, row, place, begin, end


@triton.jit
def edges_at(edges, sizes, first, end):
    """Return the other ends, the ids (0 if outside), and which edges of a block there are."""
    place = first + tl.arange(0, sizes.block_n)
    mask = place < end
    other = tl.load(edges.neighbours + place, mask=mask, other=0)
    edge = place
    if edges.ids is not None:
        edge = tl.load(edges.ids + place, mask=mask, other=0)
    return other, tl.where(mask, edge, 0), mask


@triton.jit(do_not_specialize=["step", "last_step"])
def merge_pieces(
    call, sizes, edges, step, last_step, parts, part_softmax, out, rest, softmax, before
):
    """Combine the results for the pieces of each long row, in the order of the pieces.

    Outputs are weighted by their sums of exponentials; gradients, without a softmax, are added up.
    """
    item = tl.program_id(0) // call.heads
    head = tl.program_id(0) % call.heads
    node = tl.load(edges.rows + item)
    row = node
    do = row >= 0
    if before is not None:
        row, do = row_of(before, node, do)
    if not do:
        return
    top = -INFINITY
    sums = 0.0
    acc = tl.full([out.block], 0.0, tl.float32)
    end = tl.load(edges.cuts + item + 1)
    for first in range(tl.load(edges.cuts + item), end, sizes.block_n):
        piece = first + tl.arange(0, sizes.block_n)
        mask = piece < end
        part = load_tile(parts, head, piece, mask)
        if part_softmax is None:
            acc += total(part, 0)
        else:
            place = part_softmax + 2 * (piece * call.heads + head)
            scores = tl.load(place, mask=mask, other=-INFINITY)
            top, shrink, weights = online_softmax(top, scores, 0)
            weights *= tl.load(place + 1, mask=mask, other=0.0)
            sums = sums * shrink + total(weights, 0)
            acc = acc * shrink + total(weights[:, None] * part, 0)
    if part_softmax is not None:
        acc = acc / tl.where(sums == 0.0, 1.0, sums)
        store_two(softmax, row.to(tl.int64) * call.heads + head, top, sums, do)
        if rest is not None:
            store_tile(rest, head, row, do, lost(acc, out))
    at = row
    if before is None and call.is_stored:
        at = table_row(call, row, do, step)
        acc += load_tile(out, head, at, goes_on(call, node, do, step, last_step))
    store_tile(out, head, at, do, acc)
