"""Kernels for intervals: each program computes one head of a block of rows or of sources."""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import (
    FAR,
    INFINITY,
    LOG2E,
    dropout_factor,
    finite,
    largest,
    load_softmax,
    load_tile,
    lost,
    masked_scores,
    smallest,
    store_softmax,
    store_tile,
    total,
)


@triton.jit
def cut_rows(
    cuts: tl.tensor,  # (sentences + 1,) int32, the first row of each sentence
    nodes: tl.tensor,  # (rows,) node of each row, or `None` if they are the same
    lo: tl.tensor,  # (nodes,) int64, as `hi` the interval of sources of each node; or `None`
    hi: tl.tensor,
    row_starts: tl.tensor,  # (nodes,) int64, the first edge of each
    first: tl.tensor,  # (blocks,) int32 out, the first row of each block
    last: tl.tensor,  # (blocks,) int32 out, the row after it
    blocks: tl.tensor,  # int32 out, how many blocks there are
    low: tl.tensor,  # (rows,) int32 out, as `high` the interval of each row
    high: tl.tensor,
    shift: tl.tensor,  # (rows,) int64 out
    block_m: tl.constexpr,
    lanes: tl.constexpr,
    span: tl.constexpr,
) -> None:
    """Cut up to `span` rows of one sentence into blocks of `block_m` rows, and write the blocks.

    A program handles `lanes` sentences or rows at a time. It counts the blocks of all earlier
    sentences, to find the index of its own first block. The interval of each row is written in 32
    bits, so that other kernels need no look-up by node.
    """
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
    own = begin + tl.program_id(1) * span
    for start in range(own, tl.minimum(own + span, end), lanes):
        row = start + lane
        mask = row < end
        opens = mask & ((row - begin) % block_m == 0)
        block = place + (row - begin) // block_m
        tl.store(first + block, row, mask=opens)
        tl.store(last + block, tl.minimum(row + block_m, end), mask=opens)
        if lo is not None:
            node = row
            if nodes is not None:
                node = tl.load(nodes + row, mask=mask, other=0)
            from_source = tl.load(lo + node, mask=mask, other=0)
            to_source = tl.load(hi + node, mask=mask, other=0)
            seen = from_source < to_source
            tl.store(low + row, tl.where(seen, from_source, FAR).to(tl.int32), mask=mask)
            tl.store(high + row, tl.where(seen, to_source, 0).to(tl.int32), mask=mask)
            edge = tl.load(row_starts + node, mask=mask, other=0)
            tl.store(shift + row, edge - from_source, mask=mask)
    if sentence == tl.num_programs(0) - 1:
        tl.store(blocks, place + (end - begin + block_m - 1) // block_m)


@triton.jit
def load_interval(
    low: tl.tensor, high: tl.tensor, row: tl.tensor, mask: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """Return the interval `(begin, end)` of sources of each row; if it is empty, end is 0."""
    begin = tl.load(low + row, mask=mask, other=FAR)
    return begin, tl.load(high + row, mask=mask, other=0)


@triton.jit
def edge_of(shift: tl.tensor, ids: tl.tensor, source: tl.tensor, seen: tl.tensor) -> tl.tensor:
    """Return the edge id of each pair of a row and a source; 0 for pairs without an edge."""
    edge = tl.where(seen, shift + source, 0)
    if ids is not None:
        edge = tl.load(ids + edge, mask=seen, other=0)
    return edge


@triton.jit(do_not_specialize=["seed", "threshold"])
def interval_forward(
    query: tl.tensor,  # (rows, heads, width)
    key: tl.tensor,  # (sources, heads, width)
    value: tl.tensor,  # (sources, heads, value_width)
    out: tl.tensor,  # (rows, heads, value_width) out
    rest: tl.tensor,  # as `out`: what rounding took from it
    softmax: tl.tensor,  # (rows, heads, 2) out, see `store_softmax`
    low: tl.tensor,  # (rows,) the first source of each row
    high: tl.tensor,  # (rows,) the source after its last one
    shift: tl.tensor,  # (rows,) added to a source, gives the index of the edge
    ids: tl.tensor,  # (edges,) the edge id of each index, or `None` if they are the same
    bias: tl.tensor,  # (edges, bias_heads) by edge id, or `None`
    first: tl.tensor,  # (blocks,) the first row of each block
    last: tl.tensor,  # (blocks,) the row after its last one
    blocks: tl.tensor,  # how many blocks there are
    query_stride: tl.tensor,
    key_stride: tl.tensor,
    value_stride: tl.tensor,
    scale: tl.tensor,
    seed: tl.tensor,
    threshold: tl.tensor,
    keep: tl.tensor,
    heads: tl.constexpr,
    bias_heads: tl.constexpr,
    width: tl.constexpr,
    value_width: tl.constexpr,
    block_width: tl.constexpr,
    block_value: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    precision: tl.constexpr,
) -> None:
    """Compute attention for a block of rows in one pass over the union of their intervals.

    The kernel `cut_rows` writes the blocks (`first`, `last`) and intervals (`low`, `high`). The
    softmax is computed online, as in arXiv 1805.02867 and FlashAttention (arXiv 2205.14135).
    """
    block = tl.program_id(0)
    head = tl.program_id(1)
    if block >= tl.load(blocks):
        return
    row = tl.load(first + block) + tl.arange(0, block_m)
    mask = row < tl.load(last + block)
    begin, until = load_interval(low, high, row, mask)
    to_edge = tl.load(shift + row, mask=mask, other=0)
    q = load_tile(query, head, row, query_stride, mask, width, block_width)
    top = tl.full([block_m], -INFINITY, tl.float32)
    sums = tl.full([block_m], 0.0, tl.float32)
    acc = tl.full([block_m, block_value], 0.0, tl.float32)
    end = largest(until, 0)
    for start in range(smallest(begin, 0), end, block_n):
        source = start + tl.arange(0, block_n)
        inside = source < end
        seen = (source[None, :] >= begin[:, None]) & (source[None, :] < until[:, None])
        k = load_tile(key, head, source, key_stride, inside, width, block_width)
        v = load_tile(value, head, source, value_stride, inside, value_width, block_value)
        edge = None
        if bias is not None or seed is not None:
            edge = edge_of(to_edge[:, None], ids, source[None, :], seen)
        scores = tl.dot(q, tl.trans(k), input_precision=precision) * (scale * LOG2E)
        scores = masked_scores(scores, bias, edge, head, seen, bias_heads)
        new = tl.maximum(top, largest(scores, 1))
        weights = tl.exp2(scores - finite(new)[:, None])
        shrink = tl.exp2(top - finite(new))
        sums = sums * shrink + total(weights, 1)
        if seed is not None:
            weights = weights * dropout_factor(edge, head, seed, threshold, keep)
        acc = acc * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=precision)
        top = new
    acc = acc / tl.where(sums == 0.0, 1.0, sums)[:, None]
    stride = heads * value_width
    store_tile(out, head, row, stride, acc, mask, value_width, block_value)
    if rest is not None:
        store_tile(rest, head, row, stride, lost(acc, out), mask, value_width, block_value)
    store_softmax(softmax, row * heads + head, top, sums, mask)


@triton.jit(do_not_specialize=["seed", "threshold"])
def interval_query(
    query: tl.tensor,
    key: tl.tensor,
    value: tl.tensor,
    out: tl.tensor,
    rest: tl.tensor,
    to_out: tl.tensor,  # (rows, heads, value_width) gradient of `out`
    softmax: tl.tensor,
    delta: tl.tensor,  # (rows, heads) out: `out . to_out`
    to_query: tl.tensor,  # (rows, heads, width) out
    to_bias: tl.tensor,  # (edges, heads) out
    low: tl.tensor,
    high: tl.tensor,
    shift: tl.tensor,
    ids: tl.tensor,
    bias: tl.tensor,
    first: tl.tensor,
    last: tl.tensor,
    blocks: tl.tensor,
    query_stride: tl.tensor,
    key_stride: tl.tensor,
    value_stride: tl.tensor,
    to_out_stride: tl.tensor,
    scale: tl.tensor,
    seed: tl.tensor,
    threshold: tl.tensor,
    keep: tl.tensor,
    heads: tl.constexpr,
    bias_heads: tl.constexpr,
    width: tl.constexpr,
    value_width: tl.constexpr,
    block_width: tl.constexpr,
    block_value: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    precision: tl.constexpr,
) -> None:
    """Recompute the attention weights of rows, and write the gradients of query and bias.

    Inputs are as in `interval_forward`. If `g` is a weight's gradient, its score has the gradient
    `weight * (g - delta)`, where `delta` is the mean of `g` over the row, weighted by attention.
    """
    block = tl.program_id(0)
    head = tl.program_id(1)
    if block >= tl.load(blocks):
        return
    row = tl.load(first + block) + tl.arange(0, block_m)
    mask = row < tl.load(last + block)
    begin, until = load_interval(low, high, row, mask)
    to_edge = tl.load(shift + row, mask=mask, other=0)
    place = row * heads + head
    q = load_tile(query, head, row, query_stride, mask, width, block_width)
    o = load_tile(out, head, row, heads * value_width, mask, value_width, block_value)
    o = o.to(tl.float32)
    if rest is not None:
        o += load_tile(rest, head, row, heads * value_width, mask, value_width, block_value)
    to_o = load_tile(to_out, head, row, to_out_stride, mask, value_width, block_value)
    mean = total(o * to_o.to(tl.float32), 1)
    tl.store(delta + place, mean, mask=mask)
    top, inverse = load_softmax(softmax, place, mask)
    acc = tl.full([block_m, block_width], 0.0, tl.float32)
    end = largest(until, 0)
    for start in range(smallest(begin, 0), end, block_n):
        source = start + tl.arange(0, block_n)
        inside = source < end
        seen = (source[None, :] >= begin[:, None]) & (source[None, :] < until[:, None])
        k = load_tile(key, head, source, key_stride, inside, width, block_width)
        v = load_tile(value, head, source, value_stride, inside, value_width, block_value)
        edge = None
        if (bias is not None or seed is not None) or to_bias is not None:
            edge = edge_of(to_edge[:, None], ids, source[None, :], seen)
        scores = tl.dot(q, tl.trans(k), input_precision=precision) * (scale * LOG2E)
        scores = masked_scores(scores, bias, edge, head, seen, bias_heads)
        weights = tl.exp2(scores - top[:, None]) * inverse[:, None]
        to_weights = tl.dot(to_o, tl.trans(v), input_precision=precision)
        if seed is not None:
            to_weights = to_weights * dropout_factor(edge, head, seed, threshold, keep)
        to_scores = weights * (to_weights - mean[:, None])
        if to_bias is not None:
            tl.store(to_bias + edge * heads + head, to_scores, mask=seen)
        acc += tl.dot(to_scores.to(k.dtype), k, input_precision=precision)
    acc *= scale
    store_tile(to_query, head, row, heads * width, acc, mask, width, block_width)


@triton.jit(do_not_specialize=["seed", "threshold"])
def interval_source(
    query: tl.tensor,
    key: tl.tensor,
    value: tl.tensor,
    to_out: tl.tensor,
    softmax: tl.tensor,
    delta: tl.tensor,
    to_key: tl.tensor,  # (sources, heads, width) out
    to_value: tl.tensor,  # (sources, heads, value_width) out
    low: tl.tensor,
    high: tl.tensor,
    shift: tl.tensor,
    ids: tl.tensor,
    bias: tl.tensor,
    first: tl.tensor,
    last: tl.tensor,
    rows: tl.tensor,  # (2, blocks) the first row that may see a block, and the one after the last
    query_stride: tl.tensor,
    key_stride: tl.tensor,
    value_stride: tl.tensor,
    to_out_stride: tl.tensor,
    scale: tl.tensor,
    seed: tl.tensor,
    threshold: tl.tensor,
    keep: tl.tensor,
    heads: tl.constexpr,
    bias_heads: tl.constexpr,
    width: tl.constexpr,
    value_width: tl.constexpr,
    block_width: tl.constexpr,
    block_value: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    precision: tl.constexpr,
) -> None:
    """Write the gradients of keys and values, summed over the rows in order (without atomics).

    The inputs are as in `interval_forward`, but `first` and `last` cut blocks of sources. Weights
    are `(sources, rows)`, so that the next matrix product needs no transpose.
    """
    block = tl.program_id(0)
    head = tl.program_id(1)
    source = tl.load(first + block) + tl.arange(0, block_n)
    inside = source < tl.load(last + block)
    k = load_tile(key, head, source, key_stride, inside, width, block_width)
    v = load_tile(value, head, source, value_stride, inside, value_width, block_value)
    to_k = tl.full([block_n, block_width], 0.0, tl.float32)
    to_v = tl.full([block_n, block_value], 0.0, tl.float32)
    end = tl.load(rows + tl.num_programs(0) + block)
    for start in range(tl.load(rows + block), end, block_m):
        row = start + tl.arange(0, block_m)
        mask = row < end
        begin, until = load_interval(low, high, row, mask)
        seen = (source[:, None] >= begin[None, :]) & (source[:, None] < until[None, :])
        seen &= mask[None, :] & inside[:, None]
        place = row * heads + head
        q = load_tile(query, head, row, query_stride, mask, width, block_width)
        to_o = load_tile(to_out, head, row, to_out_stride, mask, value_width, block_value)
        top, inverse = load_softmax(softmax, place, mask)
        mean = tl.load(delta + place, mask=mask, other=0.0)
        edge = None
        if bias is not None or seed is not None:
            to_edge = tl.load(shift + row, mask=mask, other=0)
            edge = edge_of(to_edge[None, :], ids, source[:, None], seen)
        scores = tl.dot(k, tl.trans(q), input_precision=precision) * (scale * LOG2E)
        scores = masked_scores(scores, bias, edge, head, seen, bias_heads)
        weights = tl.exp2(scores - top[None, :]) * inverse[None, :]
        to_weights = tl.dot(v, tl.trans(to_o), input_precision=precision)
        kept = weights
        if seed is not None:
            factor = dropout_factor(edge, head, seed, threshold, keep)
            kept = weights * factor
            to_weights = to_weights * factor
        to_scores = weights * (to_weights - mean[None, :])
        to_v += tl.dot(kept.to(to_o.dtype), to_o, input_precision=precision)
        to_k += tl.dot(to_scores.to(q.dtype), q, input_precision=precision)
    to_k *= scale
    store_tile(to_key, head, source, heads * width, to_k, inside, width, block_width)
    store_tile(to_value, head, source, heads * value_width, to_v, inside, value_width, block_value)
