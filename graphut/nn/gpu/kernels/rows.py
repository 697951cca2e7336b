"""Kernels for the rows of a step: which nodes are active, its input, its end, and their gradients.

In each step `advance` lists the active nodes and makes the input of their rows, and `finish` lets
nodes halt and adds their states to the output, as `graphut.nn.ACT` does. Its programs do not know
how many nodes of other programs halt: they count in `going`, `(steps + 1, groups)`, how many of
`group` consecutive nodes are active in each step.
"""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import (
    FAR,
    INFINITY,
    load_two,
    smallest,
    store_two,
    total,
)

LANES = tl.constexpr(128)  # groups that are loaded at once


@triton.jit
def places(shared, row, mask):
    """Return the offsets of all columns of each row, and which of them exist."""
    column = tl.arange(0, shared.block_w)
    inside = mask[:, None] & (column < shared.width)[None, :]
    return row.to(tl.int64)[:, None] * shared.width + column[None, :], inside


@triton.jit
def load_wide(table, at, mask):
    """Load entries in float32; 0 where `mask` is false."""
    return tl.load(table + at, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def load_vector(shared, table):
    """Load a vector as a row in float32."""
    column = tl.arange(0, shared.block_w)
    return load_wide(table, column, column < shared.width)[None, :]


@triton.jit(do_not_specialize=["step", "last_step"])
def advance(shared, now, last, signal, step, last_step, is_first: tl.constexpr):
    """List the active nodes and the nodes to store, and write the input of their rows.

    In the first step, `errors` gets the first node with a state that is not finite.
    """
    groups = shared.size // shared.group + 1
    first = tl.program_id(0) * shared.block_m
    node = first + tl.arange(0, shared.block_m)
    num_src = tl.load(shared.sizes).to(tl.int32)
    exists = node < num_src
    if is_first:
        everyone = tl.load(shared.sizes + 1).to(tl.int32)
        goes = node < everyone
        tl.store(shared.halted + node, tl.where(goes, last_step, 0), mask=exists)
        moves = goes
        if shared.stores_all:
            moves = exists
        tl.store(shared.settled + node, tl.where(moves, last_step, 1), mask=exists)
        rank = tl.minimum(node, everyone)
        if first % shared.group == 0:
            for later in range(2, last_step + 1):
                tl.store(shared.going + later * groups + first // shared.group, 0)
    else:
        goes = tl.load(shared.halted + node, mask=exists, other=0) >= step
        ahead = tl.full([LANES], 0, tl.int32)
        sums = tl.full([LANES], 0, tl.int32)
        for start in range(0, groups, LANES):
            other = start + tl.arange(0, LANES)
            at = step * groups + other
            number = tl.load(shared.going + at, mask=other < groups, other=0)
            sums += number
            ahead += tl.where(other < first // shared.group, number, 0)
        everyone = total(sums, 0)
        earlier = first // shared.group * shared.group + tl.arange(0, shared.group)
        ended = tl.load(shared.halted + earlier, mask=earlier < first, other=0)
        own = total((ended >= step).to(tl.int32), 0) + total(ahead, 0)
        ones = goes.to(tl.int32)
        rank = own + tl.associative_scan(ones, 0, tl.standard._sum_combine) - ones
    tl.store(now.before + node, rank, mask=node <= shared.size)
    if is_first or shared.stores_all:
        shown = exists
        place = tl.where(goes, rank, everyone + node - rank)
        number = num_src
    else:  # nodes that have just halted are stored once more
        shown = goes | (exists & (tl.load(shared.halted + node, mask=exists, other=0) == step - 1))
        stood = tl.load(last.before + node, mask=exists, other=0)
        place = tl.where(goes, rank, everyone + stood - rank)
        number = tl.load(last.active)
    if first == 0:
        tl.store(now.active, everyone)
        tl.store(now.number, tl.where(everyone > 0, number, 0))
    shown &= exists & (rank * 0 + everyone > 0)
    tl.store(now.nodes + place, node, mask=shown)
    at_node, known = places(shared, node, shown)
    at_row, _ = places(shared, place, shown)
    tile = load_wide(shared.states, at_node, known)
    if is_first:
        wrong = tl.where(known & ((tl.abs(tile) < INFINITY) == 0), 1, 0)
        worst = tl.where(total(wrong, 1) > 0, node, FAR)
        tl.store(shared.errors + tl.program_id(0), smallest(worst, 0))
    if shared.encodings is not None:
        tile += load_wide(shared.encodings, at_node, known)
    if signal is not None:
        tile += load_vector(shared, signal)
    tl.store(now.rows + at_row, tile.to(now.rows.dtype.element_ty), mask=known)


@triton.jit
def end_state(shared, norm, sums, row, here, is_new: tl.constexpr):
    """Return the states after a step, the same without weight and bias of `norm`, and its factor.

    If the sums are new, their statistics are stored, else loaded.
    """
    at, known = places(shared, row, here)
    even = load_wide(sums, at, known)
    state = even
    inverse = tl.full([shared.block_m], 1.0, tl.float32)
    if norm is not None:
        if is_new:
            mean = total(even, 1) / shared.width
            apart = tl.where(known, even - mean[:, None], 0.0)
            inverse = 1.0 / tl.sqrt(total(apart * apart, 1) / shared.width + norm.eps)
            store_two(norm.stats, row, mean, inverse, here)
        else:
            mean, inverse = load_two(norm.stats, row, here)
        even = tl.where(known, (even - mean[:, None]) * inverse[:, None], 0.0)
        state = even * load_vector(shared, norm.scale) + load_vector(shared, norm.shift)
    return state.to(sums.dtype.element_ty).to(tl.float32), even, inverse


@triton.jit(do_not_specialize=["step"])
def finish(shared, now, norm, step, is_first: tl.constexpr, is_last: tl.constexpr):
    """Decide which nodes halt, and add the weighted states to the outputs."""
    number = tl.load(now.active)
    first = tl.program_id(0) * shared.block_m
    if first >= number:
        return
    row = first + tl.arange(0, shared.block_m)
    here = row < number
    node = tl.load(now.nodes + row, mask=here, other=0)
    at, known = places(shared, row, here)
    at_node, _ = places(shared, node, here)
    state, _even, _inverse = end_state(shared, norm, now.sums, row, here, True)
    if shared.unit is None:
        ends = tl.load(shared.schedule + node, mask=here, other=0) <= step
        p = tl.where(ends, 1.0, shared.low)
    else:
        seen = load_wide(now.rows, at, known)
        weighed = tl.where(known, seen * load_vector(shared, shared.unit), 0.0)
        p = 1.0 / (1.0 + tl.exp(-(total(weighed, 1) + tl.load(shared.unit + shared.width))))
        code = step * shared.size + node
        tl.atomic_min(shared.errors + node // shared.block_m, code, mask=here & (p != p))
    before = tl.full([shared.block_m], 0.0, tl.float32)
    if not is_first:
        before = tl.load(shared.spent + node, mask=here, other=0.0)
    halts = here & ((before + p >= shared.threshold) | is_last)
    part = tl.where(halts, 1.0 - before, p)
    tl.store(now.share + row, part, mask=here)
    tl.store(shared.spent + node, before + p, mask=here)
    tl.store(shared.remainder + node, part, mask=halts)
    steps = tl.full([shared.block_m], 0, tl.int32) + step
    tl.store(shared.halted + node, steps, mask=halts)
    if not shared.stores_all:
        tl.store(shared.settled + node, steps + 1, mask=halts)
    if not is_last:
        goes = here & (halts == 0)
        groups = shared.size // shared.group + 1
        own = shared.going + (step + 1) * groups + node // shared.group
        tl.atomic_add(own, goes.to(tl.int32), mask=goes)
        tl.store(shared.states + at_node, state.to(shared.states.dtype.element_ty), mask=known)
    weighed = part[:, None] * state
    if not is_first:
        weighed += load_wide(shared.out, at_node, known)
    tl.store(shared.out + at_node, weighed.to(shared.out.dtype.element_ty), mask=known)


@triton.jit
def norm_gradient(shared, norm, grad, even, inverse):
    """Return the gradient of the input of a LayerNorm; `even` is its output without weights."""
    grad = grad * load_vector(shared, norm.scale)
    along = total(grad * even, 1) / shared.width
    mean = total(grad, 1) / shared.width
    return inverse[:, None] * (grad - mean[:, None] - even * along[:, None])


@triton.jit
def add_part(shared, part, sums):
    """Add a vector of sums to the part of this program."""
    column = tl.arange(0, shared.block_w)
    sums += tl.load(part + column, mask=column < shared.width, other=0.0)
    tl.store(part + column, sums, mask=column < shared.width)


@triton.jit
def add_norm_parts(shared, parts, to_scale, to_shift):
    """Add the gradients of weight and bias of a LayerNorm to the parts of this program."""
    if parts is not None:
        part = parts + 2 * tl.program_id(0) * shared.width
        add_part(shared, part, to_scale)
        add_part(shared, part + shared.width, to_shift)


@triton.jit(do_not_specialize=["step"])
def finish_backward(shared, now, norm, norm_parts, next_number, step, is_last: tl.constexpr):
    """Compute the gradients of `finish`."""
    number = tl.load(now.active)
    to_scale = tl.full([shared.block_w], 0.0, tl.float32)
    to_shift = tl.full([shared.block_w], 0.0, tl.float32)
    to_unit = tl.full([shared.block_w], 0.0, tl.float32)
    to_bias = 0.0
    follows = 0
    if not is_last:
        follows = tl.load(next_number)
    step_m = tl.num_programs(0) * shared.block_m
    for first in range(tl.program_id(0) * shared.block_m, number, step_m):
        row = first + tl.arange(0, shared.block_m)
        here = row < number
        node = tl.load(now.nodes + row, mask=here, other=0)
        at, known = places(shared, row, here)
        at_node, _ = places(shared, node, here)
        halts = tl.load(shared.halted + node, mask=here, other=0) == step
        part = tl.load(now.share + row, mask=here, other=0.0)
        state, even, inverse = end_state(shared, norm, now.sums, row, here, False)
        of_out = load_wide(shared.to_out, at_node, known)
        to_share = total(tl.where(known, state * of_out, 0.0), 1)
        after = tl.full([shared.block_m], 0.0, tl.float32)
        grad = part[:, None] * of_out
        if not is_last:
            after = tl.load(shared.to_spent + node, mask=here & (halts == 0), other=0.0)
            _, inside = places(shared, node, here & (row * 0 + follows > 0))
            grad += load_wide(shared.to_states, at_node, inside)
        to_share += after
        left = to_share + load_wide(shared.to_remainder, node, halts)
        tl.store(shared.to_spent + node, tl.where(halts, -left, after), mask=here)
        if shared.unit is not None:
            slope = tl.where(halts, 0.0, to_share * part * (1.0 - part))
            tl.store(now.to_logit + row, slope, mask=here)
            seen = load_wide(now.rows, at, known)
            slope = tl.where(here, slope, 0.0)
            to_unit += total(tl.where(known, slope[:, None] * seen, 0.0), 0)
            to_bias += total(slope, 0)
        grad = tl.where(known, grad, 0.0)
        if norm is not None:
            to_scale += total(grad * even, 0)
            to_shift += total(grad, 0)
            grad = norm_gradient(shared, norm, grad, even, inverse)
        tl.store(now.to_sums + at, grad.to(now.to_sums.dtype.element_ty), mask=known)
    add_norm_parts(shared, norm_parts, to_scale, to_shift)
    if shared.unit is not None:
        own = shared.to_unit + tl.program_id(0) * (shared.width + 1)
        add_part(shared, own, to_unit)
        tl.store(own + shared.width, to_bias + tl.load(own + shared.width))


@triton.jit
def rows_backward(
    shared, now, norm, norm_parts, next_number, grad, sums, residual, to_rows, is_last: tl.constexpr
):
    """Compute the gradients of the sums before a LayerNorm, or without `to_rows` of `advance`.

    The next sums pass `residual` to active rows, before the LayerNorm if it is a pre-norm.
    """
    moving = tl.load(now.active)
    number = moving
    if to_rows is None:
        number = tl.load(now.number)
    to_scale = tl.full([shared.block_w], 0.0, tl.float32)
    to_shift = tl.full([shared.block_w], 0.0, tl.float32)
    step_m = tl.num_programs(0) * shared.block_m
    for first in range(tl.program_id(0) * shared.block_m, number, step_m):
        row = first + tl.arange(0, shared.block_m)
        here = row < number
        live = row < moving
        at, known = places(shared, row, here)
        _, inside = places(shared, row, live)
        tile = load_wide(grad, at, known)
        if shared.norm == "post":
            tile += load_wide(residual, at, inside)
        if norm is not None:
            _state, even, inverse = end_state(shared, norm, sums, row, here, False)
            to_scale += total(tile * even, 0)
            to_shift += total(tile, 0)
            tile = norm_gradient(shared, norm, tile, even, inverse)
        if shared.norm == "pre":
            tile += load_wide(residual, at, inside)
        if to_rows is not None:
            tl.store(to_rows + at, tile.to(to_rows.dtype.element_ty), mask=known)
        else:
            if shared.unit is not None:
                pushed = tl.load(now.to_logit + row, mask=live, other=0.0)
                tile += pushed[:, None] * load_vector(shared, shared.unit)
            node = tl.load(now.nodes + row, mask=here, other=0)
            at_node, _ = places(shared, node, here)
            if shared.to_encodings is not None:
                so_far = tl.load(shared.to_encodings + at_node, mask=known, other=0.0)
                tl.store(shared.to_encodings + at_node, so_far + tile, mask=known)
            if shared.stores_all and not is_last:
                # The state of a halted node is the same in all later steps.
                same = here & (live == 0) & (row * 0 + tl.load(next_number) > 0)
                _, inside = places(shared, row, same)
                tile += load_wide(shared.to_states, at_node, inside)
            narrow = tile.to(shared.to_states.dtype.element_ty)
            tl.store(shared.to_states + at_node, narrow, mask=known)
    add_norm_parts(shared, norm_parts, to_scale, to_shift)
