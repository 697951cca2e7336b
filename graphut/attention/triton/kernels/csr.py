"""Kernels for edges in CSR format: a program computes one head of a row or a piece of a row."""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import (
    INFINITY,
    LOG2E,
    dropout_factor,
    goes_on,
    largest,
    load_row,
    load_softmax,
    load_tile,
    lost,
    masked_scores,
    online_softmax,
    row_of,
    score_gradient,
    store_row,
    store_softmax,
    table_row,
    total,
)


@triton.jit
def locate(call, edges, sizes, by_row: tl.constexpr):
    """Find the row (or the source, unless `by_row`) or the piece of one that a program computes.

    Returns `(do, head, node, row, place, begin, end)`: whether there is anything to compute, the
    head, the node, its query row, where the result goes, and the range of edges. Rows of more than
    `split` edges are computed in pieces only.
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
        do = do & (end - begin <= sizes.split)
    else:
        node = tl.load(edges.pieces.owner + item).to(tl.int64)
        row = node
        do = row >= 0
        if by_row and call.rows.before is not None:
            row, do = row_of(call.rows.before, node, do)
        begin = tl.load(edges.pieces.start + item)
        end = tl.minimum(begin + sizes.split, tl.load(edges.indptr + node + 1))
    return do, tl.program_id(0) % call.heads, node, row, place, begin, end


@triton.jit
def edges_at(edges, sizes, first, end):
    """Return the other ends, the ids (0 if outside), and which edges of a block there are."""
    place = first + tl.arange(0, sizes.block)
    mask = place < end
    other = tl.load(edges.neighbours + place, mask=mask, other=0)
    edge = place
    if edges.ids is not None:
        edge = tl.load(edges.ids + place, mask=mask, other=0)
    return other, tl.where(mask, edge, 0), mask


@triton.jit
def scores_at(call, edges, sizes, step, q, head, first, end):
    """Return key, value, score and id of a block of in-edges, and which of them there are."""
    source, edge, mask = edges_at(edges, sizes, first, end)
    at = table_row(source, mask, call.stored, step)
    k = load_tile(call.key, head, at, mask).to(tl.float32)
    v = load_tile(call.value, head, at, mask).to(tl.float32)
    scores = total(k * q[None, :], 1) * (call.scale * LOG2E)
    return k, v, masked_scores(scores, call.bias, edge, head, mask), edge, mask


@triton.jit(do_not_specialize=["step"])
def rows_forward(call, edges, sizes, step, out, rest, softmax):
    """Compute attention for a row (or a piece) in one pass over its edges, with online softmax."""
    do, head, _node, row, place, begin, end = locate(call, edges, sizes, True)
    if not do:
        return
    q = load_row(call.query, head, row)
    top = -INFINITY
    sums = 0.0
    acc = tl.full([call.value.block], 0.0, tl.float32)
    for first in range(begin, end, sizes.block):
        _, v, scores, edge, _ = scores_at(call, edges, sizes, step, q, head, first, end)
        top, shrink, weights = online_softmax(top, scores, 0)
        sums = sums * shrink + total(weights, 0)
        if call.drop is not None:
            weights = weights * dropout_factor(edge, head, call.drop)
        acc = acc * shrink + total(weights[:, None] * v, 0)
    acc = acc / tl.where(sums == 0.0, 1.0, sums)
    store_softmax(softmax, place * call.heads + head, top, sums, do)
    store_row(out, head, place, acc)
    if rest is not None and not sizes.in_pieces:
        store_row(rest, head, place, lost(acc, out))


@triton.jit(do_not_specialize=["step"])
def rows_query(call, edges, sizes, step, out, rest, to_out, softmax, delta, to_query, to_bias):
    """Recompute a row's attention weights, and write the gradients of its query and bias."""
    do, head, node, row, place, begin, end = locate(call, edges, sizes, True)
    if not do:
        return
    at_row = row * call.heads + head
    q = load_row(call.query, head, row)
    o = load_row(out, head, row)
    if rest is not None:
        o += load_row(rest, head, row)
    to_o = load_row(to_out, head, row)
    mean = total(o * to_o, 0)
    if begin == tl.load(edges.indptr + node):  # of a row's pieces, the first writes it
        tl.store(delta + at_row, mean)
    top, inverse = load_softmax(softmax, at_row, do)
    acc = tl.full([call.query.block], 0.0, tl.float32)
    for first in range(begin, end, sizes.block):
        k, v, scores, edge, mask = scores_at(call, edges, sizes, step, q, head, first, end)
        weights = tl.exp2(scores - top) * inverse
        to_weights = total(v * to_o[None, :], 1)
        _, to_scores = score_gradient(weights, to_weights, mean, edge, head, call.drop)
        if to_bias is not None:
            tl.store(to_bias + edge * call.heads + head, to_scores, mask=mask)
        acc += total(to_scores[:, None] * k, 0)
    store_row(to_query, head, place, acc * call.scale)


@triton.jit(do_not_specialize=["step", "last_step"])
def rows_source(call, edges, sizes, step, last_step, to_out, softmax, delta, to_key, to_value):
    """Write the gradients of a source's key and value, summed over its out-edges in fixed order."""
    do, head, node, _row, place, begin, end = locate(call, edges, sizes, False)
    if not do:
        return
    at = table_row(node, do, call.stored, step)
    k = load_row(call.key, head, at)
    v = load_row(call.value, head, at)
    to_k = tl.full([call.key.block], 0.0, tl.float32)
    to_v = tl.full([call.value.block], 0.0, tl.float32)
    for first in range(begin, end, sizes.block):
        row, edge, mask = edges_at(edges, sizes, first, end)
        if call.rows.before is not None:
            row, mask = row_of(call.rows.before, row, mask)
        if largest(mask.to(tl.int32), 0) > 0:
            q = load_tile(call.query, head, row, mask).to(tl.float32)
            to_o = load_tile(to_out, head, row, mask).to(tl.float32)
            at_row = row * call.heads + head
            top, inverse = load_softmax(softmax, at_row, mask)
            mean = tl.load(delta + at_row, mask=mask, other=0.0)
            scores = total(q * k[None, :], 1) * (call.scale * LOG2E)
            scores = masked_scores(scores, call.bias, edge, head, mask)
            weights = tl.exp2(scores - top) * inverse
            to_weights = total(to_o * v[None, :], 1)
            kept, to_scores = score_gradient(weights, to_weights, mean, edge, head, call.drop)
            to_v += total(kept[:, None] * to_o, 0)
            to_k += total(to_scores[:, None] * q, 0)
    to_k *= call.scale
    if sizes.in_pieces:
        at = place
    elif call.stored is not None:  # noqa: SIM102 (decided by the compiler)
        if goes_on(node, do, call.stored, step, last_step):
            to_k += load_row(to_key, head, at)
            to_v += load_row(to_value, head, at)
    store_row(to_key, head, at, to_k)
    store_row(to_value, head, at, to_v)


@triton.jit(do_not_specialize=["step", "last_step"])
def merge_pieces(
    call, sizes, pieces, step, last_step, parts, part_softmax, out, rest, softmax, before, stored
):
    """Combine the results for the pieces of each long row, in the order of the pieces.

    Outputs are weighted by their sums of exponentials; gradients, without a softmax, are added up.
    """
    item = tl.program_id(0) // call.heads
    head = tl.program_id(0) % call.heads
    node = tl.load(pieces.rows + item)
    row = node
    do = row >= 0
    if before is not None:
        row, do = row_of(before, node, do)
    if not do:
        return
    top = -INFINITY
    sums = 0.0
    acc = tl.full([out.block], 0.0, tl.float32)
    end = tl.load(pieces.cuts + item + 1)
    for first in range(tl.load(pieces.cuts + item), end, sizes.block):
        piece = first + tl.arange(0, sizes.block)
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
        store_softmax(softmax, row.to(tl.int64) * call.heads + head, top, sums, do)
        if rest is not None:
            store_row(rest, head, row, lost(acc, out))
    at = table_row(row, do, stored, step)
    if stored is not None:  # noqa: SIM102 (decided by the compiler)
        if goes_on(node, do, stored, step, last_step):
            acc += load_row(out, head, at)
    store_row(out, head, at, acc)
