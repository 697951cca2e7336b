"""Kernels for the rows of a step: which nodes are active, its input, its end, and their gradients.

In each step `advance` lists the active nodes and makes the input of their rows, and `finish` lets
nodes halt and adds their states to the output, as `graphut.nn.ACT` does. Its programs do not know
how many nodes of other programs halt: they count in `going`, `(steps + 1, groups)`, how many of
`group` consecutive nodes are active in each step.
"""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import FAR, INFINITY, smallest, total
from graphut.nn.gpu.kernels.products import load_stats


@triton.jit
def places(
    row: tl.tensor, mask: tl.tensor, width: tl.constexpr, block_w: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """Return the offsets of all columns of each row, and which of them exist."""
    column = tl.arange(0, block_w)
    inside = mask[:, None] & (column < width)[None, :]
    return row.to(tl.int64)[:, None] * width + column[None, :], inside


@triton.jit
def load_vector(table: tl.tensor, width: tl.constexpr, block_w: tl.constexpr) -> tl.tensor:
    """Load a vector as a row in float32."""
    column = tl.arange(0, block_w)
    return tl.load(table + column, mask=column < width, other=0.0).to(tl.float32)[None, :]


@triton.jit(do_not_specialize=["step", "last_step", "size", "groups"])
def advance(
    states: tl.tensor,  # (sources, width)
    encodings: tl.tensor,  # (sources, width) or None, added to the states
    signal: tl.tensor,  # (width,) or None, added to the states
    sizes: tl.tensor,  # (2,) number of sources and of destinations
    going: tl.tensor,
    halted: tl.tensor,
    settled: tl.tensor,  # (sources,) the last step that stores a source
    before_last: tl.tensor,  # `before` of the last step
    before: tl.tensor,  # (size + 1,) out, number of active nodes before each node
    nodes: tl.tensor,  # out
    active_last: tl.tensor,  # number of nodes that were active in the last step
    active: tl.tensor,  # out
    count: tl.tensor,  # out: the number of nodes that are stored, 0 if no node is active
    rows: tl.tensor,  # (size, width) out, the input of the step
    errors: tl.tensor,  # (programs,) out, the first wrong node; FAR without one
    step: tl.tensor,
    last_step: tl.tensor,
    size: tl.tensor,
    groups: tl.tensor,
    stored: tl.constexpr,  # beside active nodes: "none", "halting" nodes, or "all"
    is_first: tl.constexpr,
    width: tl.constexpr,
    group: tl.constexpr,
    lanes: tl.constexpr,
    block_m: tl.constexpr,
    block_w: tl.constexpr,
) -> None:
    """List the active nodes and the nodes to store, and write the input of their rows."""
    first = tl.program_id(0) * block_m
    node = first + tl.arange(0, block_m)
    num_src = tl.load(sizes)
    exists = node < num_src
    if is_first:
        everyone = tl.load(sizes + 1)
        goes = node < everyone
        tl.store(halted + node, tl.where(goes, last_step, 0), mask=exists)
        moves = goes | (stored == "all")
        tl.store(settled + node, tl.where(moves, last_step, 1), mask=exists)
        rank = tl.minimum(node, everyone)
        if first % group == 0:
            for later in range(2, last_step + 1):
                tl.store(going + later * groups + first // group, 0)
    else:
        goes = tl.load(halted + node, mask=exists, other=0) >= step
        ahead = tl.full([lanes], 0, tl.int32)
        sums = tl.full([lanes], 0, tl.int32)
        for start in range(0, groups, lanes):
            other = start + tl.arange(0, lanes)
            number = tl.load(going + step * groups + other, mask=other < groups, other=0)
            sums += number
            ahead += tl.where(other < first // group, number, 0)
        everyone = total(sums, 0)
        earlier = first // group * group + tl.arange(0, group)
        ended = tl.load(halted + earlier, mask=earlier < first, other=0)
        own = total((ended >= step).to(tl.int32), 0) + total(ahead, 0)
        ones = goes.to(tl.int32)
        rank = own + tl.associative_scan(ones, 0, tl.standard._sum_combine) - ones
    tl.store(before + node, rank, mask=node <= size)
    shown = goes
    place = rank
    number = everyone
    if is_first or stored == "all":
        shown = exists
        place = tl.where(goes, rank, everyone + node - rank)
        number = num_src
    elif stored == "halting":
        shown |= exists & (tl.load(halted + node, mask=exists, other=0) == step - 1)
        stood = tl.load(before_last + node, mask=exists, other=0)
        place = tl.where(goes, rank, everyone + stood - rank)
        number = tl.load(active_last)
    if first == 0:
        tl.store(active, everyone)
        tl.store(count, tl.where(everyone > 0, number, 0))
    shown &= exists & (everyone > 0)
    tl.store(nodes + place, node, mask=shown)
    at_node, known = places(node, shown, width, block_w)
    at_row, _ = places(place, shown, width, block_w)
    tile = tl.load(states + at_node, mask=known, other=0.0).to(tl.float32)
    if is_first:
        wrong = tl.where(known & ((tl.abs(tile) < INFINITY) == 0), 1, 0)
        worst = tl.where(total(wrong, 1) > 0, 2 * node, FAR)
        tl.store(errors + tl.program_id(0), smallest(worst, 0))
    if encodings is not None:
        tile += tl.load(encodings + at_node, mask=known, other=0.0).to(tl.float32)
    if signal is not None:
        tile += load_vector(signal, width, block_w)
    tl.store(rows + at_row, tile.to(rows.dtype.element_ty), mask=known)


@triton.jit
def end_state(
    sums: tl.tensor,  # (rows, width)
    at: tl.tensor,
    known: tl.tensor,
    mean: tl.tensor,
    inverse: tl.tensor,
    scale: tl.tensor,
    shift: tl.tensor,
    narrow: tl.constexpr,
    width: tl.constexpr,
    block_w: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Return the states after a step, `(rows, width)`, and the same without weight and bias."""
    even = tl.load(sums + at, mask=known, other=0.0).to(tl.float32)
    state = even
    if scale is not None:
        even = tl.where(known, (even - mean[:, None]) * inverse[:, None], 0.0)
        state = even * load_vector(scale, width, block_w) + load_vector(shift, width, block_w)
    return state.to(narrow).to(tl.float32), even


@triton.jit(do_not_specialize=["step", "size", "groups"])
def finish(
    sums: tl.tensor,  # (rows, width) the states, before the LayerNorm if there is one
    rows: tl.tensor,  # (rows, width) the input of the step
    stats: tl.tensor,  # (rows, 2) out
    scale: tl.tensor,
    shift: tl.tensor,
    unit: tl.tensor,  # (width + 1,) weight and bias of the halting unit
    schedule: tl.tensor,  # (destinations,) the step at which a node halts, without a unit
    nodes: tl.tensor,
    active: tl.tensor,
    going: tl.tensor,
    spent: tl.tensor,  # (sources,) in and out, sum of the probabilities of each node
    states: tl.tensor,  # (sources, width) out
    out: tl.tensor,  # (sources, width) in and out
    remainder: tl.tensor,  # (sources,) out, where a node halts
    halted: tl.tensor,  # out, where a node halts
    settled: tl.tensor,  # out, where a node halts
    closed: tl.tensor,  # (sources,) out where a node halts: whether it gets the remainder
    share: tl.tensor,  # (rows,) out, the weight of the state in the output
    errors: tl.tensor,
    step: tl.tensor,
    size: tl.tensor,
    groups: tl.tensor,
    stored: tl.constexpr,
    low: tl.constexpr,  # probability of a scheduled node before it halts
    threshold: tl.constexpr,
    forced: tl.constexpr,
    reads_input: tl.constexpr,
    is_first: tl.constexpr,
    is_last: tl.constexpr,
    width: tl.constexpr,
    eps: tl.constexpr,
    group: tl.constexpr,
    block_m: tl.constexpr,
    block_w: tl.constexpr,
) -> None:
    """Decide which nodes halt, and add the weighted states to the outputs."""
    number = tl.load(active)
    first = tl.program_id(0) * block_m
    if first >= number:
        return
    row = first + tl.arange(0, block_m)
    here = row < number
    node = tl.load(nodes + row, mask=here, other=0)
    at, known = places(row, here, width, block_w)
    at_node, _ = places(node, here, width, block_w)
    mean = None
    inverse = None
    if scale is not None:
        tile = tl.load(sums + at, mask=known, other=0.0).to(tl.float32)
        mean = total(tile, 1) / width
        apart = tl.where(known, tile - mean[:, None], 0.0)
        inverse = 1.0 / tl.sqrt(total(apart * apart, 1) / width + eps)
        tl.store(stats + 2 * row, mean, mask=here)
        tl.store(stats + 2 * row + 1, inverse, mask=here)
    narrow = states.dtype.element_ty
    state, _ = end_state(sums, at, known, mean, inverse, scale, shift, narrow, width, block_w)
    if unit is None:
        ends = tl.load(schedule + node, mask=here, other=0) <= step
        p = tl.where(ends, 1.0, low)
    else:
        seen = state
        if reads_input:
            seen = tl.load(rows + at, mask=known, other=0.0).to(tl.float32)
        weighed = tl.where(known, seen * load_vector(unit, width, block_w), 0.0)
        p = 1.0 / (1.0 + tl.exp(-(total(weighed, 1) + tl.load(unit + width))))
        code = 2 * (step * size + node)
        first_block = errors + node // block_m
        tl.atomic_min(first_block, code, mask=here & (p != p))
    before = tl.full([block_m], 0.0, tl.float32)
    if not is_first:
        before = tl.load(spent + node, mask=here, other=0.0)
    reached = before + p >= threshold
    closes = here & (reached | (is_last & forced))
    halts = here & (reached | is_last)
    part = tl.where(closes, 1.0 - before, p)
    tl.store(share + row, part, mask=here)
    tl.store(spent + node, before + p, mask=here)
    tl.store(remainder + node, tl.where(closes, part, 0.0), mask=halts)
    tl.store(closed + node, closes.to(tl.int32), mask=halts)
    tl.store(halted + node, tl.full([block_m], 0, tl.int32) + step, mask=halts)
    if stored == "halting":
        tl.store(settled + node, tl.full([block_m], 1, tl.int32) + step, mask=halts)
    elif stored == "none":
        tl.store(settled + node, tl.full([block_m], 0, tl.int32) + step, mask=halts)
    if not is_last:
        goes = here & (halts == 0)
        own = going + (step + 1) * groups + node // group
        tl.atomic_add(own, goes.to(tl.int32), mask=goes)
        tl.store(states + at_node, state.to(narrow), mask=known)
    weighed = part[:, None] * state
    if not is_first:
        weighed += tl.load(out + at_node, mask=known, other=0.0).to(tl.float32)
    tl.store(out + at_node, weighed.to(out.dtype.element_ty), mask=known)


@triton.jit
def norm_gradient(
    grad: tl.tensor,
    even: tl.tensor,
    inverse: tl.tensor,
    scale: tl.tensor,
    width: tl.constexpr,
    block_w: tl.constexpr,
) -> tl.tensor:
    """Return the gradient of the input of a LayerNorm; `even` is its output without weights."""
    grad = grad * load_vector(scale, width, block_w)
    along = total(grad * even, 1) / width
    mean = total(grad, 1) / width
    return inverse[:, None] * (grad - mean[:, None] - even * along[:, None])


@triton.jit
def add_part(
    parts: tl.tensor,
    sums: tl.tensor,
    begins: tl.constexpr,
    width: tl.constexpr,
    block_w: tl.constexpr,
) -> None:
    """Add sums to the part of this program, or store them if it `begins`."""
    column = tl.arange(0, block_w)
    if not begins:
        sums += tl.load(parts + column, mask=column < width, other=0.0)
    tl.store(parts + column, sums, mask=column < width)


@triton.jit(do_not_specialize=["step"])
def finish_backward(
    sums: tl.tensor,
    rows: tl.tensor,
    stats: tl.tensor,
    scale: tl.tensor,
    shift: tl.tensor,
    unit: tl.tensor,
    nodes: tl.tensor,
    active: tl.tensor,
    count_next: tl.tensor,  # number of rows that the next step stores
    halted: tl.tensor,
    closed: tl.tensor,
    share: tl.tensor,
    to_out: tl.tensor,  # (destinations, width)
    to_remainder: tl.tensor,  # (destinations,)
    to_states: tl.tensor,  # (sources, width) from later steps
    to_spent: tl.tensor,  # (sources,) in and out
    to_sums: tl.tensor,  # (rows, width) out
    to_logit: tl.tensor,  # (rows,) out, with a unit
    norm_parts: tl.tensor,  # (programs, 2, width) to weight and bias of the LayerNorm
    unit_parts: tl.tensor,  # (programs, width + 1)
    step: tl.tensor,
    stored: tl.constexpr,
    reads_input: tl.constexpr,
    is_last: tl.constexpr,
    width: tl.constexpr,
    block_m: tl.constexpr,
    block_w: tl.constexpr,
) -> None:
    """Compute the gradients of `finish`."""
    number = tl.load(active)
    to_scale = tl.full([block_w], 0.0, tl.float32)
    to_shift = tl.full([block_w], 0.0, tl.float32)
    to_unit = tl.full([block_w], 0.0, tl.float32)
    to_bias = 0.0
    follows = 0
    if not is_last:
        follows = tl.load(count_next)
    step_m = tl.num_programs(0) * block_m
    for first in range(tl.program_id(0) * block_m, number, step_m):
        row = first + tl.arange(0, block_m)
        here = row < number
        node = tl.load(nodes + row, mask=here, other=0)
        at, known = places(row, here, width, block_w)
        at_node, _ = places(node, here, width, block_w)
        halts = tl.load(halted + node, mask=here, other=0) == step
        closes = halts & (tl.load(closed + node, mask=halts, other=0) > 0)
        part = tl.load(share + row, mask=here, other=0.0)
        mean = None
        inverse = None
        if scale is not None:
            mean, inverse = load_stats(stats, row, here)
        narrow = to_states.dtype.element_ty
        state, even = end_state(
            sums, at, known, mean, inverse, scale, shift, narrow, width, block_w
        )
        of_out = tl.load(to_out + at_node, mask=known, other=0.0).to(tl.float32)
        to_share = total(tl.where(known, state * of_out, 0.0), 1)
        after = tl.full([block_m], 0.0, tl.float32)
        grad = part[:, None] * of_out
        if not is_last:
            after = tl.load(to_spent + node, mask=here & (halts == 0), other=0.0)
            shown = here & (halts == 0)
            if stored != "none":
                shown = here & (follows > 0)
            _, inside = places(node, shown, width, block_w)
            grad += tl.load(to_states + at_node, mask=inside, other=0.0).to(tl.float32)
        to_share += after
        left = to_share + tl.load(to_remainder + node, mask=closes, other=0.0).to(tl.float32)
        tl.store(to_spent + node, tl.where(closes, -left, after), mask=here)
        if unit is not None:
            slope = tl.where(closes, 0.0, to_share * part * (1.0 - part))
            tl.store(to_logit + row, slope, mask=here)
            seen = state
            if reads_input:
                seen = tl.load(rows + at, mask=known, other=0.0).to(tl.float32)
            else:
                grad += slope[:, None] * load_vector(unit, width, block_w)
            slope = tl.where(here, slope, 0.0)
            to_unit += total(tl.where(known, slope[:, None] * seen, 0.0), 0)
            to_bias += total(slope, 0)
        grad = tl.where(known, grad, 0.0)
        if scale is not None:
            to_scale += total(grad * even, 0)
            to_shift += total(grad, 0)
            grad = norm_gradient(grad, even, inverse, scale, width, block_w)
        tl.store(to_sums + at, grad.to(to_sums.dtype.element_ty), mask=known)
    program = tl.program_id(0)
    if scale is not None:
        add_part(norm_parts + 2 * program * width, to_scale, is_last, width, block_w)
        add_part(norm_parts + (2 * program + 1) * width, to_shift, is_last, width, block_w)
    if unit is not None:
        own = unit_parts + program * (width + 1)
        add_part(own, to_unit, is_last, width, block_w)
        if not is_last:
            to_bias += tl.load(own + width)
        tl.store(own + width, to_bias)


@triton.jit
def rows_backward(
    grad: tl.tensor,  # (rows, width), after the LayerNorm if there is one
    sums: tl.tensor,  # (rows, width) the input of the LayerNorm
    stats: tl.tensor,
    scale: tl.tensor,
    residual: tl.tensor,  # (rows, width) or None, added to the gradient of active rows
    logit: tl.tensor,  # (rows,) or None, gradients that the halting unit passes to active rows
    unit: tl.tensor,
    nodes: tl.tensor,
    count: tl.tensor,
    active: tl.tensor,
    count_next: tl.tensor,
    to_rows: tl.tensor,  # (rows, width) out or None
    to_states: tl.tensor,  # (sources, width) out or None
    to_encodings: tl.tensor,  # (sources, width) or None, to which each step adds
    norm_parts: tl.tensor,
    signal_parts: tl.tensor,  # (programs, width) out or None, for one step
    stored: tl.constexpr,
    is_last: tl.constexpr,
    width: tl.constexpr,
    block_m: tl.constexpr,
    block_w: tl.constexpr,
) -> None:
    """Compute the gradients of the input of a LayerNorm, or with `to_states` those of `advance`."""
    number = tl.load(count)
    moving = tl.load(active)
    to_scale = tl.full([block_w], 0.0, tl.float32)
    to_shift = tl.full([block_w], 0.0, tl.float32)
    to_signal = tl.full([block_w], 0.0, tl.float32)
    step_m = tl.num_programs(0) * block_m
    for first in range(tl.program_id(0) * block_m, number, step_m):
        row = first + tl.arange(0, block_m)
        here = row < number
        live = row < moving
        at, known = places(row, here, width, block_w)
        _, inside = places(row, live, width, block_w)
        tile = tl.load(grad + at, mask=known, other=0.0).to(tl.float32)
        if scale is not None:
            mean, inverse = load_stats(stats, row, here)
            even = tl.load(sums + at, mask=known, other=0.0).to(tl.float32)
            even = tl.where(known, (even - mean[:, None]) * inverse[:, None], 0.0)
            to_scale += total(tile * even, 0)
            to_shift += total(tile, 0)
            tile = norm_gradient(tile, even, inverse, scale, width, block_w)
        if residual is not None:
            tile += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
        if logit is not None:
            pushed = tl.load(logit + row, mask=live, other=0.0)
            tile += pushed[:, None] * load_vector(unit, width, block_w)
        if to_rows is not None:
            tl.store(to_rows + at, tile.to(to_rows.dtype.element_ty), mask=known)
        if to_states is not None:
            node = tl.load(nodes + row, mask=here, other=0)
            at_node, _ = places(node, here, width, block_w)
            if to_encodings is not None:
                sums_so_far = tl.load(to_encodings + at_node, mask=known, other=0.0)
                tl.store(to_encodings + at_node, sums_so_far + tile, mask=known)
            if signal_parts is not None:
                to_signal += total(tl.where(known, tile, 0.0), 0)
            if stored == "all" and not is_last:
                # The state of a halted node is the same in all later steps.
                same = here & (live == 0) & (tl.load(count_next) > 0)
                _, inside = places(row, same, width, block_w)
                tile += tl.load(to_states + at_node, mask=inside, other=0.0).to(tl.float32)
            tl.store(to_states + at_node, tile.to(to_states.dtype.element_ty), mask=known)
    program = tl.program_id(0)
    if scale is not None:
        add_part(norm_parts + 2 * program * width, to_scale, is_last, width, block_w)
        add_part(norm_parts + (2 * program + 1) * width, to_shift, is_last, width, block_w)
    if signal_parts is not None:
        add_part(signal_parts + program * width, to_signal, True, width, block_w)
