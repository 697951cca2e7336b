"""What kernels share: loads, reductions, the terms that belong to single edges."""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
INFINITY = tl.constexpr(float("inf"))
FAR = tl.constexpr(2**31 - 1)  # beyond every node


# `tl.sum` and `tl.max` are kernels themselves, which are interpreted only if Triton was imported to
# be; reductions spelled out are whenever our own kernels are.
@triton.jit
def total(x: tl.tensor, axis: tl.constexpr) -> tl.tensor:
    """Sum along an axis."""
    return tl.reduce(x, axis, tl.standard._sum_combine)


@triton.jit
def largest(x: tl.tensor, axis: tl.constexpr) -> tl.tensor:
    """Maximum along an axis."""
    return tl.reduce(x, axis, tl.standard._elementwise_max)


@triton.jit
def smallest(x: tl.tensor, axis: tl.constexpr) -> tl.tensor:
    """Minimum along an axis."""
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
    """Load `(rows, block)`: the first `width` entries of a head of each row, then zeros."""
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
    """Store what `load_tile` loads, in the dtype of the table."""
    base = table + head * width
    column = tl.arange(0, block)
    places = row.to(tl.int64)[:, None] * stride + column[None, :]
    inside = mask[:, None] & (column < width)[None, :]
    tl.store(base + places, tile.to(base.dtype.element_ty), mask=inside)


@triton.jit
def lost(x: tl.tensor, memory: tl.tensor) -> tl.tensor:
    """What rounding to the dtype of the memory takes from `x`."""
    return x - x.to(memory.dtype.element_ty).to(tl.float32)


@triton.jit
def load_row(
    base: tl.tensor,
    width: tl.constexpr,
    block: tl.constexpr,
) -> tl.tensor:
    """`(block,)` float32: `width` entries, then zeros."""
    column = tl.arange(0, block)
    return tl.load(base + column, mask=column < width, other=0.0).to(tl.float32)


@triton.jit
def store_row(
    base: tl.tensor,
    row: tl.tensor,
    width: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """The inverse of `load_row`, in the dtype of the memory."""
    column = tl.arange(0, block)
    tl.store(base + column, row.to(base.dtype.element_ty), mask=column < width)


@triton.jit
def edge_bias(
    bias: tl.tensor,
    edge: tl.tensor,
    head: tl.tensor,
    mask: tl.tensor,
    bias_heads: tl.constexpr,
) -> tl.tensor:
    """What is added to scores to base 2."""
    place = edge * bias_heads
    if bias_heads > 1:
        place += head
    return tl.load(bias + place, mask=mask, other=0.0).to(tl.float32) * LOG2E


@triton.jit
def finite(top: tl.tensor) -> tl.tensor:
    """A maximum that may be subtracted: 0 where nothing was above `-inf`."""
    return tl.where(top == -INFINITY, 0.0, top)


@triton.jit
def log_sum(top: tl.tensor, sum_: tl.tensor, dead: tl.constexpr) -> tl.tensor:
    """Log-sum-exp, or `dead` where nothing was above `-inf`."""
    return tl.where(sum_ == 0.0, dead, finite(top) + tl.log2(tl.where(sum_ == 0.0, 1.0, sum_)))
