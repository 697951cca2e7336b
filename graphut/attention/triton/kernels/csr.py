"""Kernels for edges in CSR format: a program computes one head of a row or a piece of a row."""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import (
    INFINITY,
    LOG2E,
    dropout_factor,
    finite,
    goes_on,
    largest,
    load_row,
    load_softmax,
    load_tile,
    lost,
    masked_scores,
    row_of,
    store_row,
    store_softmax,
    table_row,
    total,
)


@triton.jit
def locate(
    item: tl.tensor,
    nodes: tl.tensor,  # (rows,) node of each row
    count: tl.tensor,  # the number of rows, if there are fewer than `nodes`
    before: tl.tensor,  # only where pieces are computed
    indptr: tl.tensor,
    owner: tl.tensor,  # (pieces,) node of each piece, `None` for whole rows
    start: tl.tensor,  # (pieces,) first edge of each piece
    split: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """Find the row or the piece of a row that a program computes.

    Returns `(do, node, row, begin, end)`: whether there is anything to compute, the node, its query
    row, and the range of edges. Rows of more than `split` edges are computed in pieces only.
    """
    if owner is None:
        row = item.to(tl.int64)
        node = row
        if nodes is not None:
            node = tl.load(nodes + item).to(tl.int64)
        do = item >= 0
        if count is not None:
            do = item < tl.load(count)
        begin = tl.load(indptr + node, mask=do, other=0)
        end = tl.load(indptr + node + 1, mask=do, other=0)
        do = do & (end - begin <= split)
    else:
        node = tl.load(owner + item).to(tl.int64)
        row = node
        do = row >= 0
        if before is not None:
            row, do = row_of(before, node, do)
        begin = tl.load(start + item)
        end = tl.minimum(begin + split, tl.load(indptr + node + 1))
    return do, node, row, begin, end


@triton.jit
def edge_at(ids: tl.tensor, place: tl.tensor, mask: tl.tensor) -> tl.tensor:
    """Return the ids of the edges at indices `place` in CSR order; 0 where `mask` is false."""
    edge = place
    if ids is not None:
        edge = tl.load(ids + place, mask=mask, other=0)
    return tl.where(mask, edge, 0)


@triton.jit(do_not_specialize=["seed", "threshold", "num_src", "step"])
def rows_forward(
    query: tl.tensor,  # (rows, heads, width)
    key: tl.tensor,  # (sources, heads, width)
    value: tl.tensor,  # (sources, heads, value_width)
    out: tl.tensor,  # (rows or pieces, heads, value_width) out
    rest: tl.tensor,  # as `out`, for rows: what rounding took from it
    softmax: tl.tensor,  # (rows or pieces, heads, 2) out, see `store_softmax`
    nodes: tl.tensor,
    count: tl.tensor,
    before: tl.tensor,
    indptr: tl.tensor,
    neighbours: tl.tensor,
    ids: tl.tensor,
    owner: tl.tensor,
    start: tl.tensor,
    bias: tl.tensor,
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
    block_e: tl.constexpr,
    split: tl.constexpr,
) -> None:
    """Compute attention for a row (or a piece) in one pass over its edges, with online softmax."""
    item = tl.program_id(0) // heads
    head = tl.program_id(0) % heads
    do, _, row, begin, end = locate(item, nodes, count, before, indptr, owner, start, split)
    if not do:
        return
    q = load_row(query + row * query_stride + head * width, width, block_width)
    top = -INFINITY
    sums = 0.0
    acc = tl.full([block_value], 0.0, tl.float32)
    for first in range(begin, end, block_e):
        place = first + tl.arange(0, block_e)
        mask = place < end
        source = tl.load(neighbours + place, mask=mask, other=0)
        stored = table_row(source, mask, settled, num_src, step)
        k = load_tile(key, head, stored, key_stride, mask, width, block_width)
        v = load_tile(value, head, stored, value_stride, mask, value_width, block_value)
        scores = total(k.to(tl.float32) * q[None, :], 1) * (scale * LOG2E)
        edge = None
        if bias is not None or seed is not None:
            edge = edge_at(ids, place, mask)
        scores = masked_scores(scores, bias, edge, head, mask, bias_heads)
        new = tl.maximum(top, largest(scores, 0))
        weights = tl.exp2(scores - finite(new))
        shrink = tl.exp2(top - finite(new))
        sums = sums * shrink + total(weights, 0)
        if seed is not None:
            weights = weights * dropout_factor(edge, head, seed, threshold, keep)
        acc = acc * shrink + total(weights[:, None] * v.to(tl.float32), 0)
        top = new
    acc = acc / tl.where(sums == 0.0, 1.0, sums)
    at = row * heads + head
    if owner is not None:
        at = item.to(tl.int64) * heads + head
    store_softmax(softmax, at, top, sums, do)
    store_row(out + at * value_width, acc, value_width, block_value)
    if rest is not None and owner is None:
        store_row(rest + at * value_width, lost(acc, out), value_width, block_value)


@triton.jit(do_not_specialize=["seed", "threshold", "num_src", "step"])
def rows_query(
    query: tl.tensor,
    key: tl.tensor,
    value: tl.tensor,
    out: tl.tensor,
    rest: tl.tensor,
    to_out: tl.tensor,  # (rows, heads, value_width) gradient of `out`
    softmax: tl.tensor,
    delta: tl.tensor,  # (rows, heads) out: `out . to_out`
    to_query: tl.tensor,  # (rows or pieces, heads, width) out
    to_bias: tl.tensor,  # (edges, heads) out
    nodes: tl.tensor,
    count: tl.tensor,
    before: tl.tensor,
    indptr: tl.tensor,
    neighbours: tl.tensor,
    ids: tl.tensor,
    owner: tl.tensor,
    start: tl.tensor,
    bias: tl.tensor,
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
    block_e: tl.constexpr,
    split: tl.constexpr,
) -> None:
    """Recompute a row's attention weights, and write the gradients of its query and bias.

    If `g` is the gradient of a weight, the gradient of its score is `weight * (g - delta)`, where
    `delta` is the mean of `g` over the row, weighted by attention.
    """
    item = tl.program_id(0) // heads
    head = tl.program_id(0) % heads
    do, node, row, begin, end = locate(item, nodes, count, before, indptr, owner, start, split)
    if not do:
        return
    at_row = row * heads + head
    q = load_row(query + row * query_stride + head * width, width, block_width)
    o = load_row(out + at_row * value_width, value_width, block_value)
    if rest is not None:
        o += load_row(rest + at_row * value_width, value_width, block_value)
    to_o = load_row(to_out + row * to_out_stride + head * value_width, value_width, block_value)
    mean = total(o * to_o, 0)
    if begin == tl.load(indptr + node):  # of a row's pieces, the first writes it
        tl.store(delta + at_row, mean)
    top, inverse = load_softmax(softmax, at_row, do)
    acc = tl.full([block_width], 0.0, tl.float32)
    for first in range(begin, end, block_e):
        place = first + tl.arange(0, block_e)
        mask = place < end
        source = tl.load(neighbours + place, mask=mask, other=0)
        stored = table_row(source, mask, settled, num_src, step)
        k = load_tile(key, head, stored, key_stride, mask, width, block_width)
        v = load_tile(value, head, stored, value_stride, mask, value_width, block_value)
        k = k.to(tl.float32)
        scores = total(k * q[None, :], 1) * (scale * LOG2E)
        edge = None
        if (bias is not None or seed is not None) or to_bias is not None:
            edge = edge_at(ids, place, mask)
        scores = masked_scores(scores, bias, edge, head, mask, bias_heads)
        weights = tl.exp2(scores - top) * inverse
        to_weights = total(v.to(tl.float32) * to_o[None, :], 1)
        if seed is not None:
            to_weights = to_weights * dropout_factor(edge, head, seed, threshold, keep)
        to_scores = weights * (to_weights - mean)
        if to_bias is not None:
            tl.store(to_bias + edge * heads + head, to_scores, mask=mask)
        acc += total(to_scores[:, None] * k, 0)
    at_out = at_row
    if owner is not None:
        at_out = item.to(tl.int64) * heads + head
    store_row(to_query + at_out * width, acc * scale, width, block_width)


@triton.jit(do_not_specialize=["seed", "threshold", "num_src", "step", "last_step"])
def rows_source(
    query: tl.tensor,
    key: tl.tensor,
    value: tl.tensor,
    to_out: tl.tensor,
    softmax: tl.tensor,
    delta: tl.tensor,
    to_key: tl.tensor,  # (sources or pieces, heads, width) out
    to_value: tl.tensor,  # (sources or pieces, heads, value_width) out
    before: tl.tensor,  # destinations without a row are skipped
    indptr: tl.tensor,
    neighbours: tl.tensor,
    ids: tl.tensor,
    owner: tl.tensor,
    start: tl.tensor,
    bias: tl.tensor,
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
    block_e: tl.constexpr,
    split: tl.constexpr,
) -> None:
    """Write the gradients of a source's key and value, summed over its out-edges in fixed order."""
    item = tl.program_id(0) // heads
    head = tl.program_id(0) % heads
    do, _, node, begin, end = locate(item, None, None, None, indptr, owner, start, split)
    if not do:
        return
    at = table_row(node, do, settled, num_src, step).to(tl.int64)
    k = load_row(key + at * key_stride + head * width, width, block_width)
    v = load_row(value + at * value_stride + head * value_width, value_width, block_value)
    to_k = tl.full([block_width], 0.0, tl.float32)
    to_v = tl.full([block_value], 0.0, tl.float32)
    for first in range(begin, end, block_e):
        place = first + tl.arange(0, block_e)
        mask = place < end
        row = tl.load(neighbours + place, mask=mask, other=0)
        if before is not None:
            row, mask = row_of(before, row, mask)
        if largest(mask.to(tl.int32), 0) > 0:
            q = load_tile(query, head, row, query_stride, mask, width, block_width)
            to_o = load_tile(to_out, head, row, to_out_stride, mask, value_width, block_value)
            q = q.to(tl.float32)
            to_o = to_o.to(tl.float32)
            at_row = row * heads + head
            top, inverse = load_softmax(softmax, at_row, mask)
            mean = tl.load(delta + at_row, mask=mask, other=0.0)
            scores = total(q * k[None, :], 1) * (scale * LOG2E)
            edge = None
            if bias is not None or seed is not None:
                edge = edge_at(ids, place, mask)
            scores = masked_scores(scores, bias, edge, head, mask, bias_heads)
            weights = tl.exp2(scores - top) * inverse
            to_weights = total(to_o * v[None, :], 1)
            kept = weights
            if seed is not None:
                factor = dropout_factor(edge, head, seed, threshold, keep)
                kept = weights * factor
                to_weights = to_weights * factor
            to_scores = weights * (to_weights - mean)
            to_v += total(kept[:, None] * to_o, 0)
            to_k += total(to_scores[:, None] * q, 0)
    to_k *= scale
    if owner is not None:
        at = item.to(tl.int64)
    to_key += at * to_key_stride + head * width
    to_value += at * to_value_stride + head * value_width
    if settled is not None and owner is None:  # noqa: SIM102 (decided by the compiler)
        if goes_on(node, do, settled, step, last_step):
            to_k += load_row(to_key, width, block_width)
            to_v += load_row(to_value, value_width, block_value)
    store_row(to_key, to_k, width, block_width)
    store_row(to_value, to_v, value_width, block_value)
