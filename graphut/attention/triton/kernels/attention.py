"""Attention and its gradients: a program computes one head of a row or of a block of rows.

With `sizes.block_m == 1` an item is one head of a single row (or of a source): rows are scalars,
and their edges are in CSR format, `CSREdges`. Otherwise it is one head of a block of rows (or of
sources): each row attends to an interval of sources, see `IntervalTables`. If only the device knows
how many rows there are, programs take several items: idle programs would cost more than few rows.
"""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import (
    FAR,
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
def locate(call, edges, item, by_row: tl.constexpr):
    """Return the head and the row (or the source, unless `by_row`) of an item, and its edges.

    The edges are from a first one to an end.
    """
    row = (item // call.heads).to(tl.int64)
    node = row
    if by_row and call.rows.nodes is not None:
        node = tl.load(call.rows.nodes + row).to(tl.int64)
    begin = tl.load(edges.indptr + node)
    return item % call.heads, row, begin, tl.load(edges.indptr + node + 1)


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


@triton.jit
def load_intervals(edges, nodes, row, mask):
    """Return the first source of each row, the end of its sources, and a shift.

    Rows without sources begin at `FAR` and end at 0. The index of an edge is its source plus the
    shift, where edges have indices at all.
    """
    node = row
    if nodes is not None:
        node = tl.load(nodes + row, mask=mask, other=0)
    lo = tl.load(edges.lo + node, mask=mask, other=0)
    begin = lo.to(tl.int32)
    until = tl.load(edges.hi + node, mask=mask, other=0).to(tl.int32)
    shift = lo
    if edges.row_starts is not None:
        shift = tl.load(edges.row_starts + node, mask=mask, other=0) - lo
    seen = begin < until
    return tl.where(seen, begin, FAR), tl.where(seen, until, 0), shift


@triton.jit
def pairs_of(source, low, high, shift):
    """Return the edge id of each pair of a row and a source (0 without an edge), and a mask."""
    seen = (source >= low) & (source < high)
    return tl.where(seen, shift + source, 0), seen


@triton.jit
def items_left(call, sizes, most):
    """Return how many pairs of a head and a block of rows are left, from this program on."""
    if call.rows.number is not None:
        most = tl.load(call.rows.number)
    blocks = (most + sizes.block_m - 1) // sizes.block_m
    return blocks * call.heads - tl.program_id(0)


@triton.jit
def rows_of(call, edges, sizes, item, most):
    """Return the head and the rows of an item, and which of them exist.

    Then follow the first edge (or source) of each row, the end of them, a shift from sources to
    indices of edges, and the range of all rows together.
    """
    if sizes.block_m == 1:
        head, row, low, high = locate(call, edges, item, True)
        mask = row >= 0
        shift = 0
        begin, end = low, high
    else:
        if call.rows.number is not None:
            most = tl.load(call.rows.number)
        head = item % call.heads
        row = item // call.heads * sizes.block_m + tl.arange(0, sizes.block_m)
        mask = row < most
        low, high, shift = load_intervals(edges, call.rows.nodes, row, mask)
        begin, end = smallest(low, 0), largest(high, 0)
    return head, row, mask, low, high, shift, begin, end


@triton.jit
def sources_of(call, edges, sizes, most):
    """Return whether there is anything to compute, the head, the sources, and which of them exist.

    Then follows the range of edges (or of rows) that may see one of them.
    """
    item = tl.program_id(0)
    if sizes.block_m == 1:
        head, source, begin, end = locate(call, edges, item, False)
        do = end >= 0
        inside = do
    else:
        head = item % call.heads
        first = item // call.heads * sizes.block_n
        source = first + tl.arange(0, sizes.block_n)
        until = tl.load(edges.seen_until + source, mask=source < most, other=-1)
        begin = tl.load(edges.seen_from + first).to(tl.int32)
        end = largest(until, 0).to(tl.int32)
        do = end >= 0
        if call.rows.before is not None:
            begin = tl.load(call.rows.before + begin, mask=do, other=0)
            end = tl.load(call.rows.before + end, mask=do, other=0)
        inside = until >= 0
    return do, head, source, inside, begin, end


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
        edge, seen = pairs_of(source[None, :], low[:, None], high[:, None], shift[:, None])
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
        head, row, mask, low, high, shift, begin, end = rows_of(call, edges, sizes, item, most)
        q = load_tile(call.query, head, row, mask)
        top = tl.full(mask.shape, -INFINITY, tl.float32)
        sums = tl.full(mask.shape, 0.0, tl.float32)
        acc = zeros(mask, call.value.block)
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
        store_tile(out, head, row, mask, acc)
        store_two(softmax, row * call.heads + head, top, sums, mask)


@triton.jit(do_not_specialize=["step", "most"])
def attention_query(call, edges, sizes, step, most, out, to_out, softmax, delta, to_query, to_bias):
    """Recompute the attention weights of rows, and write the gradients of query and bias."""
    for later in range(0, items_left(call, sizes, most), tl.num_programs(0)):
        item = tl.program_id(0) + later
        head, row, mask, low, high, shift, begin, end = rows_of(call, edges, sizes, item, most)
        at_row = row * call.heads + head
        q = load_tile(call.query, head, row, mask)
        o = load_tile(out, head, row, mask)
        to_o = load_tile(to_out, head, row, mask)
        mean = total(o.to(tl.float32) * to_o.to(tl.float32), len(row.shape))
        tl.store(delta + at_row, mean, mask=mask)
        top, inverse = load_softmax(softmax, at_row, mask)
        acc = zeros(row, call.query.block)
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
        store_tile(to_query, head, row, mask, acc * call.scale)


@triton.jit(do_not_specialize=["step", "most"])
def attention_source(
    call, edges, sizes, step, next_number, most, to_out, softmax, delta, to_key, to_value
):
    """Write the gradients of keys and values, summed over the rows in order (without atomics).

    Weights are `(sources, rows)`, so that the next matrix product needs no transpose.
    """
    do, head, source, inside, begin, end = sources_of(call, edges, sizes, most)
    if not do:
        return
    at = table_row(call, source, inside, step)
    k = load_tile(call.key, head, at, inside)
    v = load_tile(call.value, head, at, inside)
    to_k = zeros(source, call.key.block)
    to_v = zeros(source, call.value.block)
    for start in range(begin, end, sizes.block_n if sizes.block_m == 1 else sizes.block_m):
        if sizes.block_m == 1:
            row, edge, mask = edges_at(edges, sizes, start, end)
            if call.rows.before is not None:
                row, mask = row_of(call.rows.before, row, mask)
            seen = mask
        else:
            row = start + tl.arange(0, sizes.block_m)
            mask = row < end
            low, high, shift = load_intervals(edges, call.rows.nodes, row, mask)
            low, high, shift = low[None, :], high[None, :], shift[None, :]
            edge, seen = pairs_of(source[:, None], low, high, shift)
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
    if call.is_stored:
        kept = goes_on(call, source, inside, step, next_number)
        to_k += load_tile(to_key, head, at, kept)
        to_v += load_tile(to_value, head, at, kept)
    store_tile(to_key, head, at, inside, to_k)
    store_tile(to_value, head, at, inside, to_v)
