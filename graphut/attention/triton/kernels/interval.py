"""Kernels for intervals: each program computes one head of a block of rows or of sources."""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import (
    FAR,
    INFINITY,
    LOG2E,
    dropout_factor,
    finite,
    goes_on,
    largest,
    load_softmax,
    load_tile,
    lost,
    masked_scores,
    smallest,
    store_softmax,
    store_tile,
    table_row,
    total,
)


@triton.jit
def rows_of(
    blocks: tl.tensor, before: tl.tensor, block_m: tl.constexpr
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return the first row of this program's block, all its rows, and which of them exist."""
    at = blocks + 3 * tl.program_id(0)
    begin = tl.load(at)
    end = tl.load(at + 1)
    if before is not None:
        begin = tl.load(before + begin)
        end = tl.load(before + end)
    first = begin + tl.load(at + 2)
    row = first + tl.arange(0, block_m)
    return first < end, row, row < end


@triton.jit
def load_interval(
    lo: tl.tensor, hi: tl.tensor, nodes: tl.tensor, row: tl.tensor, mask: tl.tensor
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return the node of each row, and begin and end of its sources: `FAR` and 0 without any."""
    node = row
    if nodes is not None:
        node = tl.load(nodes + row, mask=mask, other=0)
    begin = tl.load(lo + node, mask=mask, other=0).to(tl.int32)
    until = tl.load(hi + node, mask=mask, other=0).to(tl.int32)
    seen = begin < until
    return node, tl.where(seen, begin, FAR), tl.where(seen, until, 0)


@triton.jit
def first_edge(row_starts: tl.tensor, lo: tl.tensor, node: tl.tensor, mask: tl.tensor) -> tl.tensor:
    """Return what to add to a source of each node for the index of their edge."""
    edge = tl.load(row_starts + node, mask=mask, other=0)
    return edge - tl.load(lo + node, mask=mask, other=0)


@triton.jit
def edge_of(shift: tl.tensor, ids: tl.tensor, source: tl.tensor, seen: tl.tensor) -> tl.tensor:
    """Return the edge id of each pair of a row and a source; 0 for pairs without an edge."""
    edge = tl.where(seen, shift + source, 0)
    if ids is not None:
        edge = tl.load(ids + edge, mask=seen, other=0)
    return edge


@triton.jit(do_not_specialize=["seed", "threshold", "num_src", "step"])
def interval_forward(
    query: tl.tensor,  # (rows, heads, width)
    key: tl.tensor,  # (sources, heads, width)
    value: tl.tensor,  # (sources, heads, value_width)
    out: tl.tensor,  # (rows, heads, value_width) out
    rest: tl.tensor,  # as `out`: what rounding took from it
    softmax: tl.tensor,  # (rows, heads, 2) out, see `store_softmax`
    nodes: tl.tensor,
    before: tl.tensor,
    lo: tl.tensor,  # (destinations,) the first source of each
    hi: tl.tensor,  # (destinations,) the source after its last one
    row_starts: tl.tensor,  # (destinations,) the index of its first edge
    ids: tl.tensor,  # (edges,) the edge id of each index, or `None` if they are the same
    bias: tl.tensor,  # (edges, bias_heads) by edge id, or `None`
    blocks: tl.tensor,
    settled: tl.tensor,
    num_src: tl.tensor,
    step: tl.tensor,
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
    head = tl.program_id(1)
    do, row, mask = rows_of(blocks, before, block_m)
    if not do:
        return
    node, begin, until = load_interval(lo, hi, nodes, row, mask)
    to_edge = row
    if bias is not None or seed is not None:
        to_edge = first_edge(row_starts, lo, node, mask)
    q = load_tile(query, head, row, query_stride, mask, width, block_width)
    top = tl.full([block_m], -INFINITY, tl.float32)
    sums = tl.full([block_m], 0.0, tl.float32)
    acc = tl.full([block_m, block_value], 0.0, tl.float32)
    end = largest(until, 0)
    for start in range(smallest(begin, 0), end, block_n):
        source = start + tl.arange(0, block_n)
        inside = source < end
        seen = (source[None, :] >= begin[:, None]) & (source[None, :] < until[:, None])
        at = table_row(source, inside, settled, num_src, step)
        k = load_tile(key, head, at, key_stride, inside, width, block_width)
        v = load_tile(value, head, at, value_stride, inside, value_width, block_value)
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


@triton.jit(do_not_specialize=["seed", "threshold", "num_src", "step"])
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
    nodes: tl.tensor,
    before: tl.tensor,
    lo: tl.tensor,
    hi: tl.tensor,
    row_starts: tl.tensor,
    ids: tl.tensor,
    bias: tl.tensor,
    blocks: tl.tensor,
    settled: tl.tensor,
    num_src: tl.tensor,
    step: tl.tensor,
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
    head = tl.program_id(1)
    do, row, mask = rows_of(blocks, before, block_m)
    if not do:
        return
    node, begin, until = load_interval(lo, hi, nodes, row, mask)
    to_edge = row
    if bias is not None or seed is not None:
        to_edge = first_edge(row_starts, lo, node, mask)
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
        at = table_row(source, inside, settled, num_src, step)
        k = load_tile(key, head, at, key_stride, inside, width, block_width)
        v = load_tile(value, head, at, value_stride, inside, value_width, block_value)
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


@triton.jit(do_not_specialize=["seed", "threshold", "num_src", "step", "last_step"])
def interval_source(
    query: tl.tensor,
    key: tl.tensor,
    value: tl.tensor,
    to_out: tl.tensor,
    softmax: tl.tensor,
    delta: tl.tensor,
    to_key: tl.tensor,  # (sources, heads, width) out
    to_value: tl.tensor,  # (sources, heads, value_width) out
    nodes: tl.tensor,
    before: tl.tensor,
    lo: tl.tensor,
    hi: tl.tensor,
    row_starts: tl.tensor,
    ids: tl.tensor,
    bias: tl.tensor,
    blocks: tl.tensor,  # (blocks, 4) see `SourceBlocks`
    settled: tl.tensor,
    num_src: tl.tensor,
    step: tl.tensor,
    last_step: tl.tensor,
    to_key_stride: tl.tensor,
    to_value_stride: tl.tensor,
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

    The inputs are as in `interval_forward`, but the blocks are blocks of sources. Weights are
    `(sources, rows)`, so that the next matrix product needs no transpose.
    """
    at = blocks + 4 * tl.program_id(0)
    head = tl.program_id(1)
    first = tl.load(at)
    source = first + tl.arange(0, block_n)
    inside = source < tl.load(at + 1)
    if first >= tl.load(at + 1):
        return
    begin = tl.load(at + 2)
    end = tl.load(at + 3)
    if before is not None:
        begin = tl.load(before + begin)
        end = tl.load(before + end)
    place = table_row(source, inside, settled, num_src, step)
    k = load_tile(key, head, place, key_stride, inside, width, block_width)
    v = load_tile(value, head, place, value_stride, inside, value_width, block_value)
    to_k = tl.full([block_n, block_width], 0.0, tl.float32)
    to_v = tl.full([block_n, block_value], 0.0, tl.float32)
    for start in range(begin, end, block_m):
        row = start + tl.arange(0, block_m)
        mask = row < end
        node, low, high = load_interval(lo, hi, nodes, row, mask)
        seen = (source[:, None] >= low[None, :]) & (source[:, None] < high[None, :])
        seen &= mask[None, :] & inside[:, None]
        at_row = row * heads + head
        q = load_tile(query, head, row, query_stride, mask, width, block_width)
        to_o = load_tile(to_out, head, row, to_out_stride, mask, value_width, block_value)
        top, inverse = load_softmax(softmax, at_row, mask)
        mean = tl.load(delta + at_row, mask=mask, other=0.0)
        edge = None
        if bias is not None or seed is not None:
            to_edge = first_edge(row_starts, lo, node, mask)
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
    if settled is not None:
        kept = goes_on(source, inside, settled, step, last_step)
        to_k += load_tile(to_key, head, place, to_key_stride, kept, width, block_width)
        to_v += load_tile(to_value, head, place, to_value_stride, kept, value_width, block_value)
    store_tile(to_key, head, place, to_key_stride, to_k, inside, width, block_width)
    store_tile(to_value, head, place, to_value_stride, to_v, inside, value_width, block_value)
