"""Triton kernels of Adaptive Computation Time: which nodes halt, and the next active nodes.

A step needs two launches, since no program can wait for another: `act_decide` finds the rows
that halt, and `act_compact` counts the active rows of all blocks before it moves the rows of its
own block. Sums are in the dtype of `spent`, and always in the same order. An argument has the same
meaning in all kernels:

- `seen`, `unit`: the states `(rows, width)` that the halting unit reads, and its weight and bias,
  `(width + 1,)`; both are `None` where `probability`, `(rows,)`, is given;
- `nodes`: `(rows,)`, the node of each row; a row whose node is `missing` is padding;
- `spent`: `(rows,)`, the sum of probabilities before the step; `share`: `(rows,)`, the weight of
  the step's state in the output;
- `states`, `encodings`: `(rows, width)`, the new states, and the encodings that are added to them;
- `out`, `remainder`, `steps`: for each node, the output so far, and R and N once it has halted;
- `flags`: `(rows,)` int32, 1 for rows that stay active, plus 2 for rows that get the remainder;
- `place`: `(rows,)`, the row in the next step; rows that stay active come first, in order;
- `next_x`: `x` of the next step, which has `bound` rows; `to_x`: the gradient of `x`.
"""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import total


@triton.jit
def places(
    row: tl.tensor, start: tl.tensor, mask: tl.tensor, width: tl.constexpr, block_w: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """Return offsets of `block_w` columns from `start` on in each row, and which of them exist."""
    column = start + tl.arange(0, block_w)
    inside = mask[:, None] & (column < width)[None, :]
    return row.to(tl.int64)[:, None] * width + column[None, :], inside


@triton.jit(do_not_specialize=["rows", "missing", "step"])
def act_decide(
    seen: tl.tensor,
    unit: tl.tensor,
    probability: tl.tensor,  # in, or out where `seen` is given
    spent: tl.tensor,
    nodes: tl.tensor,
    states: tl.tensor,
    out: tl.tensor,  # in and out
    remainder: tl.tensor,  # out, where a node halts
    steps: tl.tensor,  # out, where a node halts
    share: tl.tensor,  # out
    flags: tl.tensor,  # out
    wrong: tl.tensor,  # (rows,) out: 1 for a probability outside of [0, 1], 2 for NaN
    going: tl.tensor,  # (blocks,) out: number of rows of each block that stay active
    rows: tl.tensor,
    missing: tl.tensor,
    step: tl.tensor,
    threshold: tl.constexpr,
    is_last: tl.constexpr,
    forced: tl.constexpr,
    width: tl.constexpr,
    block_m: tl.constexpr,
    block_w: tl.constexpr,
) -> None:
    """Decide which rows halt, as `graphut.nn.ACT` does, and add weighted states to the outputs."""
    wide = spent.dtype.element_ty
    row = tl.program_id(0) * block_m + tl.arange(0, block_m)
    inside = row < rows
    node = tl.load(nodes + row, mask=inside, other=missing)
    real = node < missing
    if seen is None:
        p = tl.load(probability + row, mask=inside, other=0.0)
    else:
        logit = tl.full([block_m], 0.0, wide) + tl.load(unit + width).to(wide)
        for start in range(0, width, block_w):
            place, known = places(row, start, inside, width, block_w)
            column = start + tl.arange(0, block_w)
            factor = tl.load(unit + column, mask=column < width, other=0.0).to(wide)
            feat = tl.load(seen + place, mask=known, other=0.0).to(wide)
            logit += total(feat * factor[None, :], 1)
        p = 1.0 / (1.0 + tl.exp(-logit))
        tl.store(probability + row, p, mask=inside)
    fine = (p >= 0.0) & (p <= 1.0)
    tl.store(wrong + row, tl.where(real & (p != p), 2, tl.where(real & (fine == 0), 1, 0)), inside)
    before = tl.load(spent + row, mask=inside, other=0.0)
    reached = before + p >= threshold
    closes = real & (reached | (is_last & forced))
    halts = real & (reached | is_last)
    goes = real & (halts == 0)
    part = tl.where(closes, 1.0 - before, p)
    tl.store(share + row, part, mask=inside)
    tl.store(flags + row, goes.to(tl.int32) + 2 * closes.to(tl.int32), mask=inside)
    tl.store(remainder + node, tl.where(closes, part, 0.0), mask=halts)
    tl.store(steps + node, tl.full([block_m], 0, tl.int64) + step, mask=halts)
    tl.store(going + tl.program_id(0), total(goes.to(tl.int32), 0))
    rounded = part.to(out.dtype.element_ty).to(wide)
    for start in range(0, width, block_w):
        place, known = places(row, start, real, width, block_w)
        at_node, _ = places(node, start, real, width, block_w)
        state = tl.load(states + place, mask=known, other=0.0).to(wide)
        sums = tl.load(out + at_node, mask=known, other=0.0).to(wide) + rounded[:, None] * state
        tl.store(out + at_node, sums.to(out.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=["rows", "missing", "bound"])
def act_compact(
    flags: tl.tensor,
    going: tl.tensor,
    nodes: tl.tensor,
    spent: tl.tensor,
    share: tl.tensor,
    states: tl.tensor,
    encodings: tl.tensor,
    place: tl.tensor,  # out
    shown: tl.tensor,  # (rows, width) out, unless `encodings` is None: `states + encodings`
    next_nodes: tl.tensor,  # out
    next_spent: tl.tensor,  # out
    next_shown: tl.tensor,  # out
    next_encodings: tl.tensor,  # out
    count: tl.tensor,  # out: number of rows that stay active
    rows: tl.tensor,
    missing: tl.tensor,
    bound: tl.tensor,
    width: tl.constexpr,
    block_m: tl.constexpr,
    block_w: tl.constexpr,
    lanes: tl.constexpr,
) -> None:
    """Copy rows that stay active to the front of the `next_` tensors, and other rows after them."""
    block = tl.program_id(0)
    ahead = tl.full([lanes], 0, tl.int32)
    everyone = tl.full([lanes], 0, tl.int32)
    for start in range(0, tl.num_programs(0), lanes):
        other = start + tl.arange(0, lanes)
        number = tl.load(going + other, mask=other < tl.num_programs(0), other=0)
        everyone += number
        ahead += tl.where(other < block, number, 0)
    all_going = total(everyone, 0)
    if block == 0:
        tl.store(count, all_going.to(tl.int64))
    row = block * block_m + tl.arange(0, block_m)
    inside = row < rows
    goes = tl.load(flags + row, mask=inside, other=0) & 1
    rank = total(ahead, 0) + tl.associative_scan(goes, 0, tl.standard._sum_combine) - goes
    to = tl.where(goes == 1, rank, all_going + row - rank)
    tl.store(place + row, to, mask=inside)
    kept = inside & (to < bound)
    node = tl.load(nodes + row, mask=inside, other=0)
    tl.store(next_nodes + to, tl.where(goes == 1, node, missing), mask=kept)
    sums = tl.load(spent + row, mask=inside, other=0.0)
    sums += tl.load(share + row, mask=inside, other=0.0)
    tl.store(next_spent + to, sums, mask=kept)
    for start in range(0, width, block_w):
        here, known = places(row, start, inside, width, block_w)
        there, moved = places(to, start, kept, width, block_w)
        state = tl.load(states + here, mask=known, other=0.0)
        if encodings is not None:
            encoding = tl.load(encodings + here, mask=known, other=0.0)
            both = state.to(spent.dtype.element_ty) + encoding.to(spent.dtype.element_ty)
            state = both.to(state.dtype)
            tl.store(shown + here, state, mask=known)
            tl.store(next_encodings + there, encoding, mask=moved)
        tl.store(next_shown + there, state, mask=moved)


@triton.jit(do_not_specialize=["rows", "missing", "bound"])
def act_backward(
    seen: tl.tensor,
    unit: tl.tensor,
    probability: tl.tensor,
    nodes: tl.tensor,
    states: tl.tensor,
    share: tl.tensor,
    flags: tl.tensor,
    place: tl.tensor,
    to_out: tl.tensor,
    to_remainder: tl.tensor,
    to_shown: tl.tensor,
    to_next_spent: tl.tensor,
    to_next_shown: tl.tensor,
    to_next_encodings: tl.tensor,
    to_seen: tl.tensor,  # out
    to_unit: tl.tensor,  # (blocks, width + 1), to which each block adds a part
    to_probability: tl.tensor,  # out, where `seen` is None
    to_spent: tl.tensor,  # out
    to_states: tl.tensor,  # out
    to_encodings: tl.tensor,  # out
    rows: tl.tensor,
    missing: tl.tensor,
    bound: tl.tensor,
    width: tl.constexpr,
    block_m: tl.constexpr,
    block_w: tl.constexpr,
) -> None:
    """Compute the gradients of `act_decide` and `act_compact`; None: zero or not needed."""
    wide = share.dtype.element_ty
    row = tl.program_id(0) * block_m + tl.arange(0, block_m)
    inside = row < rows
    node = tl.load(nodes + row, mask=inside, other=missing)
    real = node < missing
    flag = tl.load(flags + row, mask=inside, other=0)
    closes = (flag & 2) == 2
    part = tl.load(share + row, mask=inside, other=0.0)
    to = row
    kept = inside & (row < 0)
    if place is not None:
        to = tl.load(place + row, mask=inside, other=0)
        kept = inside & (to < bound)
    after = tl.full([block_m], 0.0, wide)  # gradient of `spent` after the step
    if to_next_spent is not None:
        after = tl.load(to_next_spent + to, mask=kept & ((flag & 1) == 1), other=0.0)
    to_share = after
    if to_out is not None:
        for start in range(0, width, block_w):
            here, known = places(row, start, real, width, block_w)
            at_node, _ = places(node, start, real, width, block_w)
            state = tl.load(states + here, mask=known, other=0.0).to(wide)
            grad = tl.load(to_out + at_node, mask=known, other=0.0).to(wide)
            to_share += total(state * grad, 1)
    left = to_share
    if to_remainder is not None:
        left += tl.load(to_remainder + node, mask=real & closes, other=0.0)
    tl.store(to_spent + row, tl.where(closes, -left, after), mask=inside)
    to_p = tl.where(real & (closes == 0), to_share, 0.0)
    to_logit = to_p
    if seen is None:
        tl.store(to_probability + row, to_p, mask=inside)
    else:
        p = tl.load(probability + row, mask=inside, other=0.0)
        to_logit = to_p * p * (1.0 - p)
        own_unit = to_unit + tl.program_id(0) * (width + 1)
        tl.store(own_unit + width, tl.load(own_unit + width) + total(to_logit, 0))
    for start in range(0, width, block_w):
        here, known = places(row, start, inside, width, block_w)
        there, moved = places(to, start, kept, width, block_w)
        grad = tl.full([block_m, block_w], 0.0, wide)
        if to_shown is not None:
            grad += tl.load(to_shown + here, mask=known, other=0.0).to(wide)
        if to_next_shown is not None:
            grad += tl.load(to_next_shown + there, mask=moved, other=0.0).to(wide)
        if to_encodings is not None:
            own = grad
            if to_next_encodings is not None:
                own += tl.load(to_next_encodings + there, mask=moved, other=0.0).to(wide)
            tl.store(to_encodings + here, own.to(to_encodings.dtype.element_ty), mask=known)
        if to_out is not None:
            at_node, at = places(node, start, real, width, block_w)
            grad += part[:, None] * tl.load(to_out + at_node, mask=at, other=0.0).to(wide)
        tl.store(to_states + here, grad.to(to_states.dtype.element_ty), mask=known)
        if seen is not None:
            column = start + tl.arange(0, block_w)
            exists = column < width
            factor = tl.load(unit + column, mask=exists, other=0.0).to(wide)
            feat = tl.load(seen + here, mask=known, other=0.0).to(wide)
            to_feat = to_logit[:, None] * factor[None, :]
            tl.store(to_seen + here, to_feat.to(to_seen.dtype.element_ty), mask=known)
            sums = tl.load(own_unit + column, mask=exists, other=0.0)
            sums += total(to_logit[:, None] * feat, 0)
            tl.store(own_unit + column, sums, mask=exists)
