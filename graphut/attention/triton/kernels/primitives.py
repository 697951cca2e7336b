"""Functions that the kernels share: loads, stores, reductions, bias and dropout of edges."""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
INFINITY = tl.constexpr(float("inf"))
FAR = tl.constexpr(2**31 - 1)  # beyond every node


# `tl.sum` and `tl.max` are kernels themselves, which are interpreted only if Triton was imported to
# be; reductions spelled out are whenever our own kernels are.
@triton.jit
def total(x: tl.tensor, axis: tl.constexpr) -> tl.tensor:
    """Return the sum along an axis."""
    return tl.reduce(x, axis, tl.standard._sum_combine)


@triton.jit
def largest(x: tl.tensor, axis: tl.constexpr) -> tl.tensor:
    """Return the maximum along an axis."""
    return tl.reduce(x, axis, tl.standard._elementwise_max)


@triton.jit
def smallest(x: tl.tensor, axis: tl.constexpr) -> tl.tensor:
    """Return the minimum along an axis."""
    return tl.reduce(x, axis, tl.standard._elementwise_min)


@triton.jit
def load_tile(
    table: tl.tensor,
    head: tl.tensor,
    row: tl.tensor,
    stride: tl.tensor,
    mask: tl.tensor,
    width: tl.constexpr,
    block: tl.constexpr,
) -> tl.tensor:
    """Load a tile `(rows, block)`: the `width` features of one head of each row, then zeros."""
    base = table + head * width
    column = tl.arange(0, block)
    places = row.to(tl.int64)[:, None] * stride + column[None, :]
    inside = mask[:, None] & (column < width)[None, :]
    return tl.load(base + places, mask=inside, other=0.0)


@triton.jit
def store_tile(
    table: tl.tensor,
    head: tl.tensor,
    row: tl.tensor,
    stride: tl.tensor,
    tile: tl.tensor,
    mask: tl.tensor,
    width: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Store a tile at the addresses that `load_tile` reads, in the dtype of the table."""
    base = table + head * width
    column = tl.arange(0, block)
    places = row.to(tl.int64)[:, None] * stride + column[None, :]
    inside = mask[:, None] & (column < width)[None, :]
    tl.store(base + places, tile.to(base.dtype.element_ty), mask=inside)


@triton.jit
def row_of(before: tl.tensor, node: tl.tensor, mask: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """Return the row of each node, and which nodes have one."""
    row = tl.load(before + node, mask=mask, other=0)
    return row.to(tl.int64), mask & (tl.load(before + node + 1, mask=mask, other=0) > row)


@triton.jit
def table_row(
    source: tl.tensor, mask: tl.tensor, settled: tl.tensor, num_src: tl.tensor, step: tl.tensor
) -> tl.tensor:
    """Return where key and value of each source are at `step`, which is counted from 1.

    With `settled`, the last step that stores each source, a table holds the rows of all steps.
    """
    row = source
    if settled is not None:
        stored = tl.minimum(tl.load(settled + source, mask=mask, other=1), step)
        row = (stored - 1).to(tl.int64) * num_src + source
    return row


@triton.jit
def goes_on(
    source: tl.tensor, mask: tl.tensor, settled: tl.tensor, step: tl.tensor, last_step: tl.tensor
) -> tl.tensor:
    """Return which sources have the same key and value in the next step, if there is one."""
    return mask & (tl.load(settled + source, mask=mask, other=0) <= step) & (step < last_step)


@triton.jit
def lost(x: tl.tensor, memory: tl.tensor) -> tl.tensor:
    """Return the error of rounding `x` to the dtype that `memory` points to."""
    return x - x.to(memory.dtype.element_ty).to(tl.float32)


@triton.jit
def load_row(base: tl.tensor, width: tl.constexpr, block: tl.constexpr) -> tl.tensor:
    """Load `(block,)` in float32: `width` entries, followed by zeros."""
    column = tl.arange(0, block)
    return tl.load(base + column, mask=column < width, other=0.0).to(tl.float32)


@triton.jit
def store_row(base: tl.tensor, row: tl.tensor, width: tl.constexpr, block: tl.constexpr) -> None:
    """Store the first `width` entries of a row, in the dtype of the memory."""
    column = tl.arange(0, block)
    tl.store(base + column, row.to(base.dtype.element_ty), mask=column < width)


@triton.jit
def masked_scores(
    scores: tl.tensor,
    bias: tl.tensor,
    edge: tl.tensor,
    head: tl.tensor,
    mask: tl.tensor,
    bias_heads: tl.constexpr,
) -> tl.tensor:
    """Add the bias to scores (scaled for `exp2`); set scores outside of `mask` to `-inf`."""
    if bias is not None:
        place = edge * bias_heads
        if bias_heads > 1:
            place += head
        scores += tl.load(bias + place, mask=mask, other=0.0).to(tl.float32) * LOG2E
    return tl.where(mask, scores, -INFINITY)


@triton.jit
def finite(top: tl.tensor) -> tl.tensor:
    """Replace maxima that are `-inf` by 0, so that they can be subtracted from scores."""
    return tl.where(top == -INFINITY, 0.0, top)


@triton.jit
def store_softmax(
    softmax: tl.tensor, place: tl.tensor, top: tl.tensor, sums: tl.tensor, mask: tl.tensor
) -> None:
    """Store the largest score of each row, and the sum of exponentials relative to it.

    The logarithm of the sum of exponentials alone would be inexact for large scores.
    """
    tl.store(softmax + 2 * place, top, mask=mask)
    tl.store(softmax + 2 * place + 1, sums, mask=mask)


@triton.jit
def load_softmax(
    softmax: tl.tensor, place: tl.tensor, mask: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """Load each row's largest score and inverse sum of exponentials; both 0 if all are `-inf`."""
    top = tl.load(softmax + 2 * place, mask=mask, other=-INFINITY)
    sums = tl.load(softmax + 2 * place + 1, mask=mask, other=0.0)
    return finite(top), tl.where(sums == 0.0, 0.0, 1.0 / tl.where(sums == 0.0, 1.0, sums))


@triton.jit
def mix(bits: tl.tensor) -> tl.tensor:
    """Apply MurmurHash3's finaliser to uint32."""
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6B
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35
    return bits ^ (bits >> 16)


@triton.jit
def dropout_factor(
    edge: tl.tensor, head: tl.tensor, seed: tl.tensor, threshold: tl.tensor, keep: tl.tensor
) -> tl.tensor:
    """Return the dropout factor of each weight, 0 or `keep`, as in `graphut.attention.dropout`.

    `seed` points to an int64, and `threshold` is a 32-bit pattern.
    """
    bits = tl.load(seed)
    hashed = mix(bits.to(tl.uint32) ^ mix((bits >> 32).to(tl.uint32)))
    folded = edge.to(tl.uint32) ^ (edge >> 32).to(tl.uint32)
    by_edge = mix(hashed ^ mix(folded))
    bits = mix(by_edge ^ mix(head.to(tl.uint32) + 0x9E3779B9))
    return tl.where(bits >= threshold.to(tl.uint32), keep, 0.0)
