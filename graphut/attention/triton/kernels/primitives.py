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
def beside(x):
    """Return a scalar as it is, and a vector as a column."""
    return x if len(x.shape) == 0 else tl.expand_dims(x, -1)


@triton.jit
def zeros(row, block: tl.constexpr):
    """Return `block` zeros for each row."""
    return beside(tl.full(row.shape, 0.0, tl.float32)) + tl.full([block], 0.0, tl.float32)


@triton.jit
def tile_of(table, head, row, mask):
    """Return pointers to one head of each row, `(rows, block)`, and which of them exist."""
    column = tl.arange(0, table.block)
    place = beside(row.to(tl.int64)) * table.stride + column
    # The interpreter of Triton 3.9 makes no mask of a vector and a scalar.
    return table.data + head * table.width + place, column < tl.where(beside(mask), table.width, 0)


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
def row_of(before, node, mask):
    """Return the row of each node, and which nodes have one."""
    row = tl.load(before + node, mask=mask, other=0)
    return row.to(tl.int64), mask & (tl.load(before + node + 1, mask=mask, other=0) > row)


@triton.jit
def table_row(call, source, mask, step):
    """Return where key and value of each source are at `step`, which is counted from 1.

    A stored table has a row for each step and source.
    """
    row = source
    if call.settled is not None:
        settled = tl.minimum(tl.load(call.settled + source, mask=mask, other=1), step)
        row = (settled - 1).to(tl.int64) * call.stored_size + source
    return row


@triton.jit
def goes_on(call, source, mask, step, next_number):
    """Return which sources have the same key and value in the next step, if it has rows."""
    kept = mask & (source < 0)
    if next_number is not None:
        kept = mask & (source * 0 + tl.load(next_number) > 0)
    if call.settled is not None:
        kept &= tl.load(call.settled + source, mask=mask, other=0) <= step
    return kept


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
    weights = tl.exp2(scores - (base[:, None] if axis == 1 else base))
    return new, tl.exp2(top - base), weights


@triton.jit
def store_two(table, row, first, second, mask):
    """Store two numbers of each row."""
    tl.store(table + 2 * row, first, mask=mask)
    tl.store(table + 2 * row + 1, second, mask=mask)


@triton.jit
def load_two(table, row, mask):
    """Load two numbers of each row; 0 where `mask` is false."""
    first = tl.load(table + 2 * row, mask=mask, other=0.0)
    return first, tl.load(table + 2 * row + 1, mask=mask, other=0.0)


@triton.jit
def load_softmax(softmax, place, mask):
    """Load each row's largest score and inverse sum of exponentials; both 0 if all are `-inf`.

    The kernels store the largest score and the sum of exponentials relative to it, since the
    logarithm of the sum of exponentials would be inexact for large scores.
    """
    top, sums = load_two(softmax, place, mask)
    return finite(top), tl.where(sums == 0.0, 0.0, 1.0 / tl.where(sums == 0.0, 1.0, sums))


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
