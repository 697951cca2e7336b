"""Matrix products over as many rows as the device says, with what comes before and after them."""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import dropout_factor, total


@triton.jit
def activated(x: tl.tensor, kind: tl.constexpr) -> tl.tensor:
    """Return the activation of `x`; with an empty `kind` it is `x`."""
    if kind == "relu":
        x = tl.where(x < 0.0, 0.0, x)
    elif kind == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    return x


@triton.jit
def slope(x: tl.tensor, kind: tl.constexpr) -> tl.tensor:
    """Return the derivative of the activation at `x`."""
    if kind == "relu":
        found = tl.where(x > 0.0, 1.0, 0.0)
    else:
        density = tl.exp(-0.5 * x * x) * 0.3989422804014327
        found = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476)) + x * density
    return found


@triton.jit
def dropped(
    tile: tl.tensor,
    node: tl.tensor,
    column: tl.tensor,
    seed: tl.tensor,
    drop_below: tl.tensor,
    keep: tl.tensor,
) -> tl.tensor:
    """Apply dropout to a tile; the mask is a function of seed, node and column."""
    wide = node.to(tl.int64)[:, None]
    return tile * dropout_factor(wide, column[None, :], seed, drop_below, keep)


@triton.jit
def load_columns(
    x: tl.tensor,
    other: tl.tensor,
    row: tl.tensor,
    node: tl.tensor,
    column: tl.tensor,
    live: tl.tensor,
    here: tl.tensor,
    width: tl.constexpr,
    split: tl.constexpr,
) -> tl.tensor:
    """Load a tile: of rows that are `live` from `x`, and of rows that are `here` from `other`."""
    place = row.to(tl.int64)[:, None] * split + column[None, :]
    tile = tl.load(x + place, mask=live[:, None] & (column < split)[None, :], other=0.0)
    if other is not None:
        place = node.to(tl.int64)[:, None] * (width - split) + (column - split)[None, :]
        beyond = (column >= split) & (column < width)
        tile += tl.load(other + place, mask=here[:, None] & beyond[None, :], other=0.0)
    return tile


@triton.jit
def moments(
    x: tl.tensor,
    row: tl.tensor,
    here: tl.tensor,
    width: tl.constexpr,
    eps: tl.constexpr,
    block_m: tl.constexpr,
    block_k: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Return mean and inverse standard deviation of each row."""
    sums = tl.full([block_m], 0.0, tl.float32)
    for start in range(0, width, block_k):
        column = start + tl.arange(0, block_k)
        tile = load_columns(x, None, row, row, column, here, here, width, width)
        sums += total(tile.to(tl.float32), 1)
    mean = sums / width
    squares = tl.full([block_m], 0.0, tl.float32)
    for start in range(0, width, block_k):
        column = start + tl.arange(0, block_k)
        tile = load_columns(x, None, row, row, column, here, here, width, width)
        apart = tl.where((column < width)[None, :], tile.to(tl.float32) - mean[:, None], 0.0)
        squares += total(apart * apart, 1)
    return mean, 1.0 / tl.sqrt(squares / width + eps)


@triton.jit
def load_stats(stats: tl.tensor, row: tl.tensor, here: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """Load mean and inverse standard deviation of each row."""
    mean = tl.load(stats + 2 * row, mask=here, other=0.0)
    return mean, tl.load(stats + 2 * row + 1, mask=here, other=0.0)


@triton.jit
def normed(
    tile: tl.tensor,
    mean: tl.tensor,
    inverse: tl.tensor,
    scale: tl.tensor,
    shift: tl.tensor,
    column: tl.tensor,
    width: tl.constexpr,
) -> tl.tensor:
    """Apply a LayerNorm to some columns of rows."""
    factor = tl.load(scale + column, mask=column < width, other=0.0).to(tl.float32)
    offset = tl.load(shift + column, mask=column < width, other=0.0).to(tl.float32)
    even = (tile.to(tl.float32) - mean[:, None]) * inverse[:, None]
    return even * factor[None, :] + offset[None, :]


@triton.jit(do_not_specialize=["drop_below", "x_drop_below"])
def product(
    x: tl.tensor,  # (rows, split)
    other: tl.tensor,  # (sources, inner - split)
    nodes: tl.tensor,
    count: tl.tensor,
    active: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,  # (outer,)
    stats: tl.tensor,  # (rows, 2) out
    scale: tl.tensor,
    shift: tl.tensor,
    seed: tl.tensor,  # of dropout of the result, as in attention; `None` without dropout
    drop_below: tl.tensor,
    keep: tl.tensor,
    x_seed: tl.tensor,  # of dropout of `x`
    x_drop_below: tl.tensor,
    x_keep: tl.tensor,
    residual: tl.tensor,  # (rows, outer), added to the result
    residual_stats: tl.tensor,
    residual_scale: tl.tensor,
    residual_shift: tl.tensor,
    hidden: tl.tensor,  # (rows, outer), at which the slope of the activation is a factor
    out: tl.tensor,  # (rows, out_split) out
    out_other: tl.tensor,  # (sources, outer - out_split) out
    inner_stride: tl.tensor,
    outer_stride: tl.tensor,
    inner: tl.constexpr,
    outer: tl.constexpr,
    split: tl.constexpr,
    out_split: tl.constexpr,
    activation: tl.constexpr,  # of `x`
    slope_of: tl.constexpr,  # the activation at `hidden`
    eps: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    precision: tl.constexpr,
) -> None:
    """Multiply the rows of `x` by a matrix, whose strides say whether it is transposed.

    LayerNorm and activation are applied to `x` as it is loaded.
    """
    rows = tl.load(count)
    first = tl.program_id(0) * block_m
    if first >= rows:
        return
    row = first + tl.arange(0, block_m)
    here = row < rows
    live = here
    node = row
    if (other is not None or out_other is not None) or (seed is not None or x_seed is not None):
        node = tl.load(nodes + row, mask=here, other=0)
    if other is not None:
        live = row < tl.load(active)
    column = tl.program_id(1) * block_n + tl.arange(0, block_n)
    if scale is not None:
        mean, inverse = moments(x, row, here, inner, eps, block_m, block_k)
        if tl.program_id(1) == 0:
            tl.store(stats + 2 * row, mean, mask=here)
            tl.store(stats + 2 * row + 1, inverse, mask=here)
    acc = tl.full([block_m, block_n], 0.0, tl.float32)
    for start in range(0, inner, block_k):
        at = start + tl.arange(0, block_k)
        tile = load_columns(x, other, row, node, at, live, here, inner, split)
        if scale is not None:
            tile = normed(tile, mean, inverse, scale, shift, at, inner)
        if activation != "":
            tile = activated(tile.to(tl.float32), activation)
        if x_seed is not None:
            tile = dropped(tile, node, at, x_seed, x_drop_below, x_keep)
        place = at.to(tl.int64)[:, None] * inner_stride + column[None, :] * outer_stride
        known = (at < inner)[:, None] & (column < outer)[None, :]
        factor = tl.load(weight + place, mask=known, other=0.0)
        acc += tl.dot(tile.to(factor.dtype), factor, input_precision=precision)
    if bias is not None:
        acc += tl.load(bias + column, mask=column < outer, other=0.0).to(tl.float32)[None, :]
    there = here[:, None] & (column < outer)[None, :]
    place = row.to(tl.int64)[:, None] * outer + column[None, :]
    if hidden is not None:
        acc *= slope(tl.load(hidden + place, mask=there, other=0.0).to(tl.float32), slope_of)
    if seed is not None:
        acc = dropped(acc, node, column, seed, drop_below, keep)
    if residual is not None:
        added = tl.load(residual + place, mask=there, other=0.0).to(tl.float32)
        if residual_scale is not None:
            mean, inverse = load_stats(residual_stats, row, here)
            added = normed(added, mean, inverse, residual_scale, residual_shift, column, outer)
        acc += added
    if out_other is not None:
        far = node.to(tl.int64)[:, None] * (outer - out_split) + (column - out_split)[None, :]
        beyond = there & (column >= out_split)[None, :]
        tl.store(out_other + far, acc.to(out_other.dtype.element_ty), mask=beyond)
        place = row.to(tl.int64)[:, None] * out_split + column[None, :]
        there = (row < tl.load(active))[:, None] & (column < out_split)[None, :]
    tl.store(out + place, acc.to(out.dtype.element_ty), mask=there)


@triton.jit(do_not_specialize=["steps", "size", "drop_below", "x_drop_below"])
def weight_gradient(
    grad: tl.tensor,  # (steps, size, split), of the result of a product
    other: tl.tensor,  # (steps, size, outer - split)
    x: tl.tensor,  # (steps, size, inner), what was multiplied
    nodes: tl.tensor,  # (steps, size)
    count: tl.tensor,  # (steps, 4), of which the first column counts
    active: tl.tensor,  # (steps, 4)
    stats: tl.tensor,  # (steps, size, 2)
    scale: tl.tensor,
    shift: tl.tensor,
    weight: tl.tensor,  # whose dtype the factors have
    seed: tl.tensor,  # (steps, places), of dropout of `grad`
    drop_below: tl.tensor,
    keep: tl.tensor,
    x_seed: tl.tensor,  # (steps, places), of dropout of `x`
    x_drop_below: tl.tensor,
    x_keep: tl.tensor,
    to_weight: tl.tensor,  # (parts, outer, inner) out
    to_bias: tl.tensor,  # (parts, steps, outer) out
    steps: tl.tensor,
    size: tl.tensor,
    places: tl.constexpr,  # number of seeds of a step
    inner: tl.constexpr,
    outer: tl.constexpr,
    split: tl.constexpr,
    activation: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    precision: tl.constexpr,
) -> None:
    """Multiply the gradients of all steps by what the weight was multiplied by.

    The last axis of the grid cuts the rows into parts. The bias has a gradient for each step.
    """
    column = tl.program_id(0) * block_n + tl.arange(0, block_n)
    at = tl.program_id(1) * block_k + tl.arange(0, block_k)
    part = tl.program_id(2)
    acc = tl.full([block_n, block_k], 0.0, tl.float32)
    for step in range(steps):
        rows = tl.load(count + 4 * step)
        base = step * size.to(tl.int64)
        sums = tl.full([block_n], 0.0, tl.float32)
        for start in range(part * block_m, rows, tl.num_programs(2) * block_m):
            row = start + tl.arange(0, block_m)
            here = row < rows
            live = here
            node = row
            far = other
            if other is not None or (seed is not None or x_seed is not None):
                node = tl.load(nodes + base + row, mask=here, other=0)
            if other is not None:
                live = row < tl.load(active + 4 * step)
                far = other + base * (outer - split)
            near = grad + base * split
            given = load_columns(near, far, row, node, column, live, here, outer, split)
            tile = load_columns(x + base * inner, None, row, row, at, here, here, inner, inner)
            if scale is not None:
                mean, inverse = load_stats(stats + 2 * base, row, here)
                tile = normed(tile, mean, inverse, scale, shift, at, inner)
                tile = tl.where(here[:, None], tile, 0.0)
            if activation != "":
                tile = activated(tile.to(tl.float32), activation)
            if x_seed is not None:
                tile = dropped(tile, node, at, x_seed + step * places, x_drop_below, x_keep)
            if seed is not None:
                given = dropped(given, node, column, seed + step * places, drop_below, keep)
            sums += total(given.to(tl.float32), 0)
            narrow = weight.dtype.element_ty
            turned = tl.trans(given.to(narrow))
            acc += tl.dot(turned, tile.to(narrow), input_precision=precision)
        if tl.program_id(1) == 0:
            place = (part * steps + step) * outer + column
            tl.store(to_bias + place, sums, mask=column < outer)
    place = (part * outer + column).to(tl.int64)[:, None] * inner + at[None, :]
    tl.store(to_weight + place, acc, mask=(column < outer)[:, None] & (at < inner)[None, :])
