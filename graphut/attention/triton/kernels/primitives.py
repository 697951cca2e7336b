"""Functions that the kernels share: loads, stores, reductions, softmax, and dropout of edges."""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
INFINITY = tl.constexpr(float("inf"))
FAR = tl.constexpr(2**31 - 1)  # beyond every node


# `tl.sum` and `tl.max` are kernels themselves, which are interpreted only if Triton was imported to
# be; reductions spelled out are whenever our own kernels are.
@triton.jit
def total(x, axis: tl.constexpr):
    """Return the sum along an axis."""
    return tl.reduce(x, axis, tl.standard._sum_combine)


@triton.jit
def largest(x, axis: tl.constexpr):
    """Return the maximum along an axis."""
    return tl.reduce(x, axis, tl.standard._elementwise_max)


@triton.jit
def smallest(x, axis: tl.constexpr):
    """Return the minimum along an axis."""
    return tl.reduce(x, axis, tl.standard._elementwise_min)


@triton.jit
def tile_of(table, head, row, mask):
    """Return pointers to one head of each row, `(rows, block)`, and which of them exist."""
    column = tl.arange(0, table.block)
    place = row.to(tl.int64)[:, None] * table.stride + column[None, :]
    return table.data + head * table.width + place, mask[:, None] & (column < table.width)[None, :]


@triton.jit
def load_tile(table, head, row, mask):
    """Load one head of each row, followed by zeros; only zeros where `mask` is false."""
    at, inside = tile_of(table, head, row, mask)
    return tl.load(at, mask=inside, other=0.0)


@triton.jit
def store_tile(table, head, row, mask, tile):
    """Store a tile where `load_tile` reads it, in the dtype of the table."""
    at, inside = tile_of(table, head, row, mask)
    tl.store(at, tile.to(table.data.dtype.element_ty), mask=inside)


@triton.jit
def row_at(table, head, row):
    """Return pointers to one head of a row, `(block,)`, and which of them exist."""
    column = tl.arange(0, table.block)
    base = table.data + row.to(tl.int64) * table.stride + head * table.width
    return base + column, column < table.width


@triton.jit
def load_row(table, head, row):
    """Load the features of one head of a row in float32, padded with zeros."""
    at, inside = row_at(table, head, row)
    return tl.load(at, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def store_row(table, head, row, value):
    """Store one head of a row, in the dtype of the table."""
    at, inside = row_at(table, head, row)
    tl.store(at, value.to(table.data.dtype.element_ty), mask=inside)


@triton.jit
def row_of(before, node, mask):
    """Return the row of each node, and which nodes have one."""
    row = tl.load(before + node, mask=mask, other=0)
    return row.to(tl.int64), mask & (tl.load(before + node + 1, mask=mask, other=0) > row)


@triton.jit
def table_row(source, mask, stored, step):
    """Return where key and value of each source are at `step`, which is counted from 1.

    A table that is `Stored` has a row for each step and source.
    """
    row = source
    if stored is not None:
        settled = tl.minimum(tl.load(stored.settled + source, mask=mask, other=1), step)
        row = (settled - 1).to(tl.int64) * stored.size + source
    return row


@triton.jit
def goes_on(source, mask, stored, step, last_step):
    """Return which sources have the same key and value in the next step, if there is one."""
    settled = tl.load(stored.settled + source, mask=mask, other=0)
    return mask & (settled <= step) & (step < last_step)


@triton.jit
def lost(x, table):
    """Return the error of rounding `x` to the dtype of a table."""
    return x - x.to(table.data.dtype.element_ty).to(tl.float32)


@triton.jit
def masked_scores(scores, bias, edge, head, mask):
    """Add the bias to scores (scaled for `exp2`); set scores outside of `mask` to `-inf`."""
    if bias is not None:
        place = edge * bias.edge_stride + head * bias.head_stride
        scores += tl.load(bias.data + place, mask=mask, other=0.0).to(tl.float32) * LOG2E
    return tl.where(mask, scores, -INFINITY)


@triton.jit
def finite(top):
    """Replace maxima that are `-inf` by 0, so that they can be subtracted from scores."""
    return tl.where(top == -INFINITY, 0.0, top)


@triton.jit
def online_softmax(top, scores, axis: tl.constexpr):
    """Return the maximum of `top` and more scores, the factor of earlier sums, and the weights.

    The weights are relative to the new maximum, as in arXiv 1805.02867 and 2205.14135.
    """
    new = tl.maximum(top, largest(scores, axis))
    base = finite(new)
    shrink = tl.exp2(top - base)
    if axis == 1:
        base = base[:, None]
    return new, shrink, tl.exp2(scores - base)


@triton.jit
def store_softmax(softmax, place, top, sums, mask):
    """Store the largest score of each row, and the sum of exponentials relative to it.

    The logarithm of the sum of exponentials alone would be inexact for large scores.
    """
    tl.store(softmax + 2 * place, top, mask=mask)
    tl.store(softmax + 2 * place + 1, sums, mask=mask)


@triton.jit
def load_softmax(softmax, place, mask):
    """Load each row's largest score and inverse sum of exponentials; both 0 if all are `-inf`."""
    top = tl.load(softmax + 2 * place, mask=mask, other=-INFINITY)
    sums = tl.load(softmax + 2 * place + 1, mask=mask, other=0.0)
    return finite(top), tl.where(sums == 0.0, 0.0, 1.0 / tl.where(sums == 0.0, 1.0, sums))


@triton.jit
def score_gradient(weights, to_weights, mean, edge, head, drop):
    """Return the weights after dropout and the gradients of scores; `to_weights` is before it.

    If `g` is the gradient of a weight, the gradient of its score is `weight * (g - mean)`, where
    `mean` is the mean of `g` over the row, weighted by attention.
    """
    kept = weights
    if drop is not None:
        factor = dropout_factor(edge, head, drop)
        kept = weights * factor
        to_weights = to_weights * factor
    return kept, weights * (to_weights - mean)


@triton.jit
def mix(bits):
    """Apply MurmurHash3's finaliser to uint32."""
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6B
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35
    return bits ^ (bits >> 16)


@triton.jit
def dropout_factor(edge, head, drop, shift=0):
    """Return the dropout factor of each weight, as in `graphut.attention.dropout`.

    The seed is `shift` entries after that of `drop`.
    """
    bits = tl.load(drop.seed + shift)
    hashed = mix(bits.to(tl.uint32) ^ mix((bits >> 32).to(tl.uint32)))
    folded = edge.to(tl.uint32) ^ (edge >> 32).to(tl.uint32)
    by_edge = mix(hashed ^ mix(folded))
    bits = mix(by_edge ^ mix(head.to(tl.uint32) + 0x9E3779B9))
    return tl.where(bits >= drop.threshold.to(tl.uint32), drop.keep, 0.0)
