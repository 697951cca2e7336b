"""Attention and its gradients: a program computes one head of a row or of a block of rows.

With `sizes.block_m == 1` rows are scalars, see `edges.py`. If only the device knows how many rows
there are, programs take several, one after the other: idle programs would cost more than few rows.
"""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.edges import (
    edges_at,
    items_left,
    pairs_of,
    rows_at,
    rows_of,
    sources_of,
)
from graphut.attention.triton.kernels.primitives import (
    INFINITY,
    LOG2E,
    beside,
    dropout_factor,
    goes_on,
    largest,
    load_softmax,
    load_tile,
    online_softmax,
    row_of,
    smallest,
    store_tile,
    store_two,
    table_row,
    total,
    zeros,
)


@triton.jit
def dot_products(x, y, sizes):
    """Return the dot product of each row of `x` and each row of `y`."""
    if sizes.block_m == 1:
        each = y.to(tl.float32) * tl.expand_dims(x.to(tl.float32), 0)
        found = total(each, len(y.shape) - 1)
    else:
        found = tl.dot(x, tl.trans(y), input_precision=sizes.precision)
    return found


@triton.jit
def weighted_sums(weights, x, sizes):
    """Return the sum of the rows of `x`, weighted by each row of `weights`."""
    if sizes.block_m == 1:
        found = total(beside(weights) * x.to(tl.float32), 0)
    else:
        found = tl.dot(weights.to(x.dtype), x, input_precision=sizes.precision)
    return found


@triton.jit
def masked_scores(call, sizes, x, y, edge, head, seen):
    """Return the scores of pairs of rows, scaled for `exp2`, which are `-inf` outside of `seen`."""
    scores = dot_products(x, y, sizes) * (call.scale * LOG2E)
    if call.bias_columns > 0:
        place = edge * call.bias_columns + (head if call.bias_columns > 1 else 0)
        scores += tl.load(call.bias + place, mask=seen, other=0.0).to(tl.float32) * LOG2E
    return tl.where(seen, scores, -INFINITY)


@triton.jit
def score_gradients(call, sizes, scores, top, inverse, mean, x, y, edge, head):
    """Return the weights after dropout, and the gradients of scores.

    The gradient of a weight after dropout is a dot product of `x` and `y`. If `g` is the gradient
    of a weight, the gradient of its score is `weight * (g - mean)`, where `mean` is the mean of `g`
    over the row, weighted by attention.
    """
    weights = tl.exp2(scores - top) * inverse
    kept = weights
    to_weights = dot_products(x, y, sizes)
    if call.drop is not None:
        factor = dropout_factor(edge, head, call.drop)
        kept = weights * factor
        to_weights = to_weights * factor
    return kept, weights * (to_weights - mean)


@triton.jit
def bounds(low, high):
    """Return the first of `low` and the last of `high`."""
    if len(low.shape) > 0:
        low = smallest(low, 0)
        high = largest(high, 0)
    return low, high


@triton.jit
def sources_at(call, edges, sizes, step, q, head, low, high, shift, start, end):
    """Return key and value of some sources; score and edge of each pair, and which exist."""
    if sizes.block_m == 1:
        source, edge, inside = edges_at(edges, sizes, start, end)
        at = table_row(call, source, inside, step)
        seen = inside
    else:
        source = start + tl.arange(0, sizes.block_n)
        inside = source < end
        at = table_row(call, source, inside, step)
        edge, seen = pairs_of(edges, source[None, :], low[:, None], high[:, None], shift[:, None])
    k = load_tile(call.key, head, at, inside)
    v = load_tile(call.value, head, at, inside)
    return k, v, masked_scores(call, sizes, q, k, edge, head, seen), edge, seen


@triton.jit(do_not_specialize=["step", "most"])
def attention_forward(call, edges, sizes, step, most, out, softmax):
    """Write the output of rows, with the largest score and the sum of exponentials of each.

    There is one pass over the sources of a row, with online softmax.
    """
    axis: tl.constexpr = 0 if sizes.block_m == 1 else 1
    for later in range(0, items_left(call, sizes, most), tl.num_programs(0)):
        item = tl.program_id(0) + later
        head, row, mask, place, low, high, shift = rows_of(call, edges, sizes, item, most)
        q = load_tile(call.query, head, row, mask)
        top = tl.full(mask.shape, -INFINITY, tl.float32)
        sums = tl.full(mask.shape, 0.0, tl.float32)
        acc = zeros(mask, call.value.block)
        begin, end = bounds(low, high)
        for start in range(begin, end, sizes.block_n):
            _, v, scores, edge, _ = sources_at(
                call, edges, sizes, step, q, head, low, high, shift, start, end
            )
            top, shrink, weights = online_softmax(top, scores, axis)
            sums = sums * shrink + total(weights, axis)
            if call.drop is not None:
                weights = weights * dropout_factor(edge, head, call.drop)
            acc = acc * beside(shrink) + weighted_sums(weights, v, sizes)
        acc = acc / beside(tl.where(sums == 0.0, 1.0, sums))
        store_tile(out, head, place, mask, acc)
        store_two(softmax, place * call.heads + head, top, sums, mask)


@triton.jit(do_not_specialize=["step", "most"])
def attention_query(call, edges, sizes, step, most, out, to_out, softmax, delta, to_query, to_bias):
    """Recompute the attention weights of rows, and write the gradients of query and bias."""
    for later in range(0, items_left(call, sizes, most), tl.num_programs(0)):
        item = tl.program_id(0) + later
        head, row, mask, place, low, high, shift = rows_of(call, edges, sizes, item, most)
        at_row = row * call.heads + head
        q = load_tile(call.query, head, row, mask)
        o = load_tile(out, head, row, mask)
        to_o = load_tile(to_out, head, row, mask)
        mean = total(o.to(tl.float32) * to_o.to(tl.float32), len(row.shape))
        tl.store(delta + at_row, mean, mask=mask)
        top, inverse = load_softmax(softmax, at_row, mask)
        acc = zeros(row, call.query.block)
        begin, end = bounds(low, high)
        for start in range(begin, end, sizes.block_n):
            k, v, scores, edge, seen = sources_at(
                call, edges, sizes, step, q, head, low, high, shift, start, end
            )
            _, to_scores = score_gradients(
                call, sizes, scores, beside(top), beside(inverse), beside(mean), to_o, v, edge, head
            )
            if to_bias is not None:
                tl.store(to_bias + edge * call.heads + head, to_scores, mask=seen)
            acc += weighted_sums(to_scores, k, sizes)
        store_tile(to_query, head, place, mask, acc * call.scale)


@triton.jit(do_not_specialize=["step", "last_step", "most"])
def attention_source(
    call, edges, sizes, step, last_step, most, to_out, softmax, delta, to_key, to_value
):
    """Write the gradients of keys and values, summed over the rows in order (without atomics).

    Weights are `(sources, rows)`, so that the next matrix product needs no transpose.
    """
    do, head, source, inside, place, begin, end = sources_of(call, edges, sizes, most)
    if not do:
        return
    at = table_row(call, source, inside, step)
    k = load_tile(call.key, head, at, inside)
    v = load_tile(call.value, head, at, inside)
    to_k = zeros(source, call.key.block)
    to_v = zeros(source, call.value.block)
    for start in range(begin, end, sizes.block_n if sizes.block_m == 1 else sizes.block_m):
        row, mask, edge, seen = rows_at(call, edges, sizes, source, start, end)
        # Often no row of a small frontier has an edge from a single source.
        if largest(mask.to(tl.int32), 0) > 0 if sizes.block_m == 1 else True:
            at_row = row * call.heads + head
            q = load_tile(call.query, head, row, mask)
            to_o = load_tile(to_out, head, row, mask)
            top, inverse = load_softmax(softmax, at_row, mask)
            mean = tl.load(delta + at_row, mask=mask, other=0.0)
            scores = masked_scores(call, sizes, k, q, edge, head, seen)
            kept, to_scores = score_gradients(
                call, sizes, scores, top, inverse, mean, v, to_o, edge, head
            )
            to_v += weighted_sums(kept, to_o, sizes)
            to_k += weighted_sums(to_scores, q, sizes)
    to_k *= call.scale
    if sizes.in_pieces:
        at = place
    elif call.is_stored:
        kept = goes_on(call, source, inside, step, last_step)
        to_k += load_tile(to_key, head, at, kept)
        to_v += load_tile(to_value, head, at, kept)
    store_tile(to_key, head, at, inside, to_k)
    store_tile(to_value, head, at, inside, to_v)


@triton.jit(do_not_specialize=["step", "last_step"])
def merge_pieces(call, sizes, edges, step, last_step, parts, part_softmax, out, softmax, before):
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
    at = row
    if before is None and call.is_stored:
        at = table_row(call, row, do, step)
        acc += load_tile(out, head, at, goes_on(call, node, do, step, last_step))
    store_tile(out, head, at, do, acc)
