"""Matrix products over as many rows as the device says, with what comes before and after them."""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import (
    dropout_factor,
    load_two,
    store_two,
    total,
)


@triton.jit
def activated(x, kind: tl.constexpr):
    """Return the activation of `x`; with an empty `kind` it is `x`."""
    if kind == "relu":
        x = tl.where(x < 0.0, 0.0, x)
    elif kind == "gelu":
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    return x


@triton.jit
def slope(x, kind: tl.constexpr):
    """Return the derivative of the activation at `x`."""
    if kind == "relu":
        found = tl.where(x > 0.0, 1.0, 0.0)
    else:
        density = tl.exp(-0.5 * x * x) * 0.3989422804014327
        found = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476)) + x * density
    return found


@triton.jit
def load_columns(x, row, node, column, live, here):
    """Load a tile: of rows that are `live` from `x`, and of rows that are `here` by node."""
    place = row.to(tl.int64)[:, None] * x.split + column[None, :]
    tile = tl.load(x.data + place, mask=live[:, None] & (column < x.split)[None, :], other=0.0)
    if x.by_node is not None:
        place = node.to(tl.int64)[:, None] * (x.width - x.split) + (column - x.split)[None, :]
        beyond = (column >= x.split) & (column < x.width)
        tile += tl.load(x.by_node + place, mask=here[:, None] & beyond[None, :], other=0.0)
    return tile


@triton.jit
def moments(x, row, here, block_m: tl.constexpr, block_k: tl.constexpr):
    """Return mean and inverse standard deviation of each row."""
    sums = tl.full([block_m], 0.0, tl.float32)
    for start in range(0, x.width, block_k):
        tile = load_columns(x, row, row, start + tl.arange(0, block_k), here, here)
        sums += total(tile.to(tl.float32), 1)
    mean = sums / x.width
    squares = tl.full([block_m], 0.0, tl.float32)
    for start in range(0, x.width, block_k):
        column = start + tl.arange(0, block_k)
        tile = load_columns(x, row, row, column, here, here).to(tl.float32)
        apart = tl.where((column < x.width)[None, :], tile - mean[:, None], 0.0)
        squares += total(apart * apart, 1)
    return mean, 1.0 / tl.sqrt(squares / x.width + x.norm.eps)


@triton.jit
def normed(tile, mean, inverse, norm, column, width: tl.constexpr):
    """Apply a LayerNorm to some columns of rows."""
    factor = tl.load(norm.scale + column, mask=column < width, other=0.0).to(tl.float32)
    offset = tl.load(norm.shift + column, mask=column < width, other=0.0).to(tl.float32)
    even = (tile.to(tl.float32) - mean[:, None]) * inverse[:, None]
    return even * factor[None, :] + offset[None, :]


@triton.jit
def prepared(tile, x, node, column, mean, inverse, shift):
    """Apply LayerNorm, activation and dropout of an operand to a tile of it."""
    if x.norm is not None:
        tile = normed(tile, mean, inverse, x.norm, column, x.width)
    if x.activation != "":
        tile = activated(tile.to(tl.float32), x.activation)
    if x.drop is not None:
        tile *= dropout_factor(node.to(tl.int64)[:, None], column[None, :], x.drop, shift)
    return tile


@triton.jit
def product(
    x, nodes, number, active, weight, turned: tl.constexpr, bias, drop, residual, hidden, out, sizes
):
    """Multiply rows of `x` by a weight, which is transposed if `turned`; `drop`; add `residual`.

    The slope of the activation at `hidden` is a factor of the result.
    """
    rows = tl.load(number)
    first = tl.program_id(0) * sizes.block_m
    if first >= rows:
        return
    row = first + tl.arange(0, sizes.block_m)
    here = row < rows
    live = here
    node = tl.load(nodes + row, mask=here, other=0)  # not compiled if nothing reads it
    if x.by_node is not None:
        live = row < tl.load(active)
    column = tl.program_id(1) * sizes.block_n + tl.arange(0, sizes.block_n)
    mean = None
    inverse = None
    if x.norm is not None:
        mean, inverse = moments(x, row, here, sizes.block_m, sizes.block_k)
        if tl.program_id(1) == 0:
            store_two(x.norm.stats, row, mean, inverse, here)
    acc = tl.full([sizes.block_m, sizes.block_n], 0.0, tl.float32)
    for start in range(0, x.width, sizes.block_k):
        at = start + tl.arange(0, sizes.block_k)
        tile = load_columns(x, row, node, at, live, here)
        tile = prepared(tile, x, node, at, mean, inverse, 0)
        known = (at < x.width)[:, None] & (column < out.width)[None, :]
        if turned:
            place = at.to(tl.int64)[:, None] * out.width + column[None, :]
        else:
            place = column.to(tl.int64)[None, :] * x.width + at[:, None]
        factor = tl.load(weight + place, mask=known, other=0.0)
        acc += tl.dot(tile.to(factor.dtype), factor, input_precision=sizes.precision)
    if bias is not None:
        acc += tl.load(bias + column, mask=column < out.width, other=0.0).to(tl.float32)[None, :]
    there = here[:, None] & (column < out.width)[None, :]
    place = row.to(tl.int64)[:, None] * out.width + column[None, :]
    if hidden.data is not None:
        before = tl.load(hidden.data + place, mask=there, other=0.0).to(tl.float32)
        acc *= slope(before, hidden.activation)
    if drop is not None:
        acc *= dropout_factor(node.to(tl.int64)[:, None], column[None, :], drop)
    if residual.data is not None:
        added = tl.load(residual.data + place, mask=there, other=0.0).to(tl.float32)
        if residual.norm is not None:
            mean, inverse = load_two(residual.norm.stats, row, here)
            added = normed(added, mean, inverse, residual.norm, column, out.width)
        acc += added
    if out.by_node is not None:
        far = node.to(tl.int64)[:, None] * (out.width - out.split) + (column - out.split)[None, :]
        beyond = there & (column >= out.split)[None, :]
        tl.store(out.by_node + far, acc.to(out.by_node.dtype.element_ty), mask=beyond)
        place = row.to(tl.int64)[:, None] * out.split + column[None, :]
        there = (row < tl.load(active))[:, None] & (column < out.split)[None, :]
    tl.store(out.data + place, acc.to(out.data.dtype.element_ty), mask=there)


@triton.jit(do_not_specialize=["steps", "size"])
def weight_gradient(
    x, grad, nodes, number, active, weight, to_weight, to_bias, steps, size, places, sizes
):
    """Multiply the gradients of all steps by `x`, by which the weight was multiplied.

    All arguments have a first axis of steps, `number` and `active` one of `ALIGNED` columns, of
    which the first is read, and seeds one of `places`. The last axis of the grid cuts the rows into
    parts. The bias has a gradient for each step.
    """
    column = tl.program_id(0) * sizes.block_n + tl.arange(0, sizes.block_n)
    at = tl.program_id(1) * sizes.block_k + tl.arange(0, sizes.block_k)
    part = tl.program_id(2)
    acc = tl.full([sizes.block_n, sizes.block_k], 0.0, tl.float32)
    for step in range(steps):
        rows = tl.load(number + 4 * step)
        base = step * size.to(tl.int64)
        sums = tl.full([sizes.block_n], 0.0, tl.float32)
        for start in range(part * sizes.block_m, rows, tl.num_programs(2) * sizes.block_m):
            row = start + tl.arange(0, sizes.block_m)
            here = row < rows
            live = here
            node = tl.load(nodes + base + row, mask=here, other=0)
            if grad.by_node is not None:
                live = row < tl.load(active + 4 * step)
            given = load_columns(grad, base + row, base + node, column, live, here)
            given = prepared(given, grad, node, column, None, None, step * places)
            tile = load_columns(x, base + row, row, at, here, here)
            mean = None
            inverse = None
            if x.norm is not None:
                mean, inverse = load_two(x.norm.stats, base + row, here)
            tile = prepared(tile, x, node, at, mean, inverse, step * places)
            sums += total(given.to(tl.float32), 0)
            narrow = weight.dtype.element_ty
            turned = tl.trans(given.to(narrow))
            acc += tl.dot(turned, tile.to(narrow), input_precision=sizes.precision)
        if tl.program_id(1) == 0:
            place = (part * steps + step) * grad.width + column
            tl.store(to_bias + place, sums, mask=column < grad.width)
    place = (part * grad.width + column).to(tl.int64)[:, None] * x.width + at[None, :]
    known = (column < grad.width)[:, None] & (at < x.width)[None, :]
    tl.store(to_weight + place, acc, mask=known)
