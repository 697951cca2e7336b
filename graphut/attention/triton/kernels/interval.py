"""Kernels for intervals: each program computes one head of a block of rows or of sources."""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import (
    FAR,
    INFINITY,
    LOG2E,
    dropout_factor,
    goes_on,
    largest,
    load_softmax,
    load_tile,
    lost,
    masked_scores,
    online_softmax,
    score_gradient,
    smallest,
    store_softmax,
    store_tile,
    table_row,
    total,
)


@triton.jit
def rows_of(edges, tiles, before):
    """Return whether this program's block has a row, all its rows, and which of them exist."""
    at = edges.row_blocks + 3 * tl.program_id(0)
    begin = tl.load(at)
    end = tl.load(at + 1)
    if before is not None:
        begin = tl.load(before + begin)
        end = tl.load(before + end)
    first = begin + tl.load(at + 2)
    row = first + tl.arange(0, tiles.block_m)
    return first < end, row, row < end


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
def edge_of(edges, shift, source, seen):
    """Return the edge id of each pair of a row and a source; 0 for pairs without an edge."""
    edge = tl.where(seen, shift + source, 0)
    if edges.ids is not None:
        edge = tl.load(edges.ids + edge, mask=seen, other=0)
    return edge


@triton.jit
def scores_at(call, edges, tiles, step, q, head, begin, until, shift, start, end):
    """Return key and value of a block of sources; score and edge of each pair, and which exist."""
    source = start + tl.arange(0, tiles.block_n)
    inside = source < end
    seen = (source[None, :] >= begin[:, None]) & (source[None, :] < until[:, None])
    at = table_row(source, inside, call.stored, step)
    k = load_tile(call.key, head, at, inside)
    v = load_tile(call.value, head, at, inside)
    edge = edge_of(edges, shift[:, None], source[None, :], seen)
    scores = tl.dot(q, tl.trans(k), input_precision=tiles.precision) * (call.scale * LOG2E)
    return k, v, masked_scores(scores, call.bias, edge, head, seen), edge, seen


@triton.jit(do_not_specialize=["step"])
def interval_forward(call, edges, tiles, step, out, rest, softmax):
    """Compute attention for a block of rows in one pass over the union of their intervals."""
    head = tl.program_id(1)
    do, row, mask = rows_of(edges, tiles, call.rows.before)
    if not do:
        return
    begin, until, shift = load_intervals(edges, call.rows.nodes, row, mask)
    q = load_tile(call.query, head, row, mask)
    top = tl.full([tiles.block_m], -INFINITY, tl.float32)
    sums = tl.full([tiles.block_m], 0.0, tl.float32)
    acc = tl.full([tiles.block_m, call.value.block], 0.0, tl.float32)
    end = largest(until, 0)
    for start in range(smallest(begin, 0), end, tiles.block_n):
        _, v, scores, edge, _ = scores_at(
            call, edges, tiles, step, q, head, begin, until, shift, start, end
        )
        top, shrink, weights = online_softmax(top, scores, 1)
        sums = sums * shrink + total(weights, 1)
        if call.drop is not None:
            weights = weights * dropout_factor(edge, head, call.drop)
        added = tl.dot(weights.to(v.dtype), v, input_precision=tiles.precision)
        acc = acc * shrink[:, None] + added
    acc = acc / tl.where(sums == 0.0, 1.0, sums)[:, None]
    store_tile(out, head, row, mask, acc)
    if rest is not None:
        store_tile(rest, head, row, mask, lost(acc, out))
    store_softmax(softmax, row * call.heads + head, top, sums, mask)


@triton.jit(do_not_specialize=["step"])
def interval_query(call, edges, tiles, step, out, rest, to_out, softmax, delta, to_query, to_bias):
    """Recompute the attention weights of rows, and write the gradients of query and bias."""
    head = tl.program_id(1)
    do, row, mask = rows_of(edges, tiles, call.rows.before)
    if not do:
        return
    begin, until, shift = load_intervals(edges, call.rows.nodes, row, mask)
    place = row * call.heads + head
    q = load_tile(call.query, head, row, mask)
    o = load_tile(out, head, row, mask).to(tl.float32)
    if rest is not None:
        o += load_tile(rest, head, row, mask)
    to_o = load_tile(to_out, head, row, mask)
    mean = total(o * to_o.to(tl.float32), 1)
    tl.store(delta + place, mean, mask=mask)
    top, inverse = load_softmax(softmax, place, mask)
    acc = tl.full([tiles.block_m, call.query.block], 0.0, tl.float32)
    end = largest(until, 0)
    for start in range(smallest(begin, 0), end, tiles.block_n):
        k, v, scores, edge, seen = scores_at(
            call, edges, tiles, step, q, head, begin, until, shift, start, end
        )
        weights = tl.exp2(scores - top[:, None]) * inverse[:, None]
        to_weights = tl.dot(to_o, tl.trans(v), input_precision=tiles.precision)
        _, to_scores = score_gradient(weights, to_weights, mean[:, None], edge, head, call.drop)
        if to_bias is not None:
            tl.store(to_bias + edge * call.heads + head, to_scores, mask=seen)
        acc += tl.dot(to_scores.to(k.dtype), k, input_precision=tiles.precision)
    store_tile(to_query, head, row, mask, acc * call.scale)


@triton.jit(do_not_specialize=["step", "last_step"])
def interval_source(call, edges, tiles, step, last_step, to_out, softmax, delta, to_key, to_value):
    """Write the gradients of keys and values, summed over the rows in order (without atomics).

    The blocks are blocks of sources. Weights are `(sources, rows)`, so that the next matrix product
    needs no transpose.
    """
    at = edges.source_blocks + 4 * tl.program_id(0)
    head = tl.program_id(1)
    first = tl.load(at)
    source = first + tl.arange(0, tiles.block_n)
    inside = source < tl.load(at + 1)
    if first >= tl.load(at + 1):
        return
    begin = tl.load(at + 2)
    end = tl.load(at + 3)
    if call.rows.before is not None:
        begin = tl.load(call.rows.before + begin)
        end = tl.load(call.rows.before + end)
    place = table_row(source, inside, call.stored, step)
    k = load_tile(call.key, head, place, inside)
    v = load_tile(call.value, head, place, inside)
    to_k = tl.full([tiles.block_n, call.key.block], 0.0, tl.float32)
    to_v = tl.full([tiles.block_n, call.value.block], 0.0, tl.float32)
    for start in range(begin, end, tiles.block_m):
        row = start + tl.arange(0, tiles.block_m)
        mask = row < end
        low, high, shift = load_intervals(edges, call.rows.nodes, row, mask)
        seen = (source[:, None] >= low[None, :]) & (source[:, None] < high[None, :])
        seen &= mask[None, :] & inside[:, None]
        at_row = row * call.heads + head
        q = load_tile(call.query, head, row, mask)
        to_o = load_tile(to_out, head, row, mask)
        top, inverse = load_softmax(softmax, at_row, mask)
        mean = tl.load(delta + at_row, mask=mask, other=0.0)
        edge = edge_of(edges, shift[None, :], source[:, None], seen)
        scores = tl.dot(k, tl.trans(q), input_precision=tiles.precision) * (call.scale * LOG2E)
        scores = masked_scores(scores, call.bias, edge, head, seen)
        weights = tl.exp2(scores - top[None, :]) * inverse[None, :]
        to_weights = tl.dot(v, tl.trans(to_o), input_precision=tiles.precision)
        kept, to_scores = score_gradient(weights, to_weights, mean[None, :], edge, head, call.drop)
        to_v += tl.dot(kept.to(to_o.dtype), to_o, input_precision=tiles.precision)
        to_k += tl.dot(to_scores.to(q.dtype), q, input_precision=tiles.precision)
    to_k *= call.scale
    if call.stored is not None:
        kept = goes_on(source, inside, call.stored, step, last_step)
        to_k += load_tile(to_key, head, place, kept)
        to_v += load_tile(to_value, head, place, kept)
    store_tile(to_key, head, place, inside, to_k)
    store_tile(to_value, head, place, inside, to_v)
