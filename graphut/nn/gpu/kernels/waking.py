"""The Triton kernels of rounds in which nodes wake; see `graphut.nn.EventDriven`.

An argument has the same meaning in all kernels, beside those in `graphut.nn.gpu.kernels`:

- `clock`: the number of rounds that have begun, and the largest number of rounds;
- `woken`: `(sources,)` int32, the last round in which each node is awake, so far as known;
- `going`: how many of `group` consecutive nodes are awake;
- `report`: the first error and the number of awake nodes in each round, which the host reads.

The programs of `read`, `attend` and `settle` take several rows, one after the other: a program for
each node would cost more than the few nodes that are awake.
"""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import (
    FAR,
    INFINITY,
    LOG2E,
    finite,
    largest,
    total,
)
from graphut.nn.gpu.kernels.rows import load_vector, places

EVEN = tl.constexpr(12582912.0)  # 1.5 * 2**23: adding it rounds to an even integer at ties
TINY = tl.constexpr(2.0**-46)  # square of the precision of float32


@triton.jit
def is_awake(woken: tl.tensor, node: tl.tensor, sizes: tl.tensor, clock: tl.tensor) -> tl.tensor:
    """Return which nodes are awake in the round that begins."""
    mark = tl.load(woken + node, mask=node < tl.load(sizes + 1), other=0)
    return (mark == tl.load(clock) + 1).to(tl.int32)


@triton.jit
def count(
    woken: tl.tensor, sizes: tl.tensor, clock: tl.tensor, going: tl.tensor, group: tl.constexpr
) -> None:
    """Count the awake nodes of each group."""
    node = tl.program_id(0) * group + tl.arange(0, group)
    tl.store(going + tl.program_id(0), total(is_awake(woken, node, sizes, clock), 0))


@triton.jit(do_not_specialize=["size", "groups", "place"])
def list_awake(
    woken: tl.tensor,
    sizes: tl.tensor,
    clock: tl.tensor,
    going: tl.tensor,
    before: tl.tensor,  # (size + 1,) out, number of awake nodes before each node
    nodes: tl.tensor,  # out, the awake nodes in order
    active: tl.tensor,  # out, how many they are; 0 after the last round
    report: tl.tensor,
    size: tl.tensor,
    groups: tl.tensor,
    place: tl.tensor,  # in the report
    group: tl.constexpr,
    lanes: tl.constexpr,
) -> None:
    """List the awake nodes."""
    ahead = tl.full([lanes], 0, tl.int32)
    sums = tl.full([lanes], 0, tl.int32)
    for start in range(0, groups, lanes):
        other = start + tl.arange(0, lanes)
        number = tl.load(going + other, mask=other < groups, other=0)
        sums += number
        ahead += tl.where(other < tl.program_id(0), number, 0)
    node = tl.program_id(0) * group + tl.arange(0, group)
    ones = is_awake(woken, node, sizes, clock)
    rank = total(ahead, 0) + tl.associative_scan(ones, 0, tl.standard._sum_combine) - ones
    tl.store(before + node, rank, mask=node <= size)
    tl.store(nodes + rank, node, mask=ones > 0)
    if tl.program_id(0) == 0:
        everyone = total(sums, 0)
        tl.store(report + place, everyone)
        tl.store(active, tl.where(tl.load(clock) < tl.load(clock + 1), everyone, 0))


@triton.jit
def read(
    states: tl.tensor,  # (sources, width)
    encodings: tl.tensor,  # (sources, width) or None, added to the states
    sizes: tl.tensor,
    clock: tl.tensor,
    nodes: tl.tensor,
    active: tl.tensor,
    updates: tl.tensor,  # (sources,) in and out, how often each node has computed
    last_change: tl.tensor,
    report: tl.tensor,
    rows: tl.tensor,  # (size, width) out
    begins: tl.constexpr,  # whether to take all sources, if no round has begun, or awake nodes
    width: tl.constexpr,
    block_m: tl.constexpr,
    block_w: tl.constexpr,
) -> None:
    """Write the input of a round, which begins, for its rows."""
    if begins:
        number = tl.where(tl.load(clock) == 0, tl.load(sizes), 0)
        if tl.program_id(0) == 0:
            tl.store(active, number)
            tl.store(report, FAR)
    else:
        number = tl.load(active)
        if tl.program_id(0) == 0:
            tl.store(clock, tl.load(clock) + 1)
    for first in range(tl.program_id(0) * block_m, number, tl.num_programs(0) * block_m):
        row = first + tl.arange(0, block_m)
        here = row < number
        node = row
        if begins:
            tl.store(nodes + row, row, mask=here)
            tl.store(updates + row, tl.full([block_m], 0, tl.int32), mask=here)
            tl.store(last_change + row, tl.full([block_m], 0, tl.int32), mask=here)
        else:
            node = tl.load(nodes + row, mask=here, other=0)
            tl.store(updates + node, tl.load(updates + node, mask=here, other=0) + 1, mask=here)
        at, known = places(row, here, width, block_w)
        at_node, _ = places(node, here, width, block_w)
        tile = tl.load(states + at_node, mask=known, other=0.0).to(tl.float32)
        if encodings is not None:
            tile += tl.load(encodings + at_node, mask=known, other=0.0).to(tl.float32)
        tl.store(rows + at, tile.to(rows.dtype.element_ty), mask=known)


@triton.jit
def attend(
    query: tl.tensor,  # (rows, heads, width)
    table: tl.tensor,  # (sources, 2, heads, width), keys and values
    mixed: tl.tensor,  # (rows, heads, width) out
    nodes: tl.tensor,
    active: tl.tensor,
    indptr: tl.tensor,
    neighbours: tl.tensor,
    factor: tl.tensor,  # of the scores
    heads: tl.constexpr,
    width: tl.constexpr,
    split: tl.constexpr,
    block_h: tl.constexpr,
    block_w: tl.constexpr,
    block_e: tl.constexpr,
) -> None:
    """Compute attention as `rows_forward` does, all heads of a row in one program."""
    number = tl.load(active)
    head = tl.arange(0, block_h)[:, None]
    column = tl.arange(0, block_w)[None, :]
    known = (head < heads) & (column < width)
    at = head * width + column
    for row in range(tl.program_id(0), number, tl.num_programs(0)):
        node = tl.load(nodes + row)
        begin = tl.load(indptr + node)
        end = tl.load(indptr + node + 1)
        end = tl.where(end - begin > split, begin, end)  # other programs compute the pieces
        own = row * tl.full([1, 1], heads * width, tl.int64) + at
        q = tl.load(query + own, mask=known, other=0.0).to(tl.float32)
        top = tl.full([block_h], -INFINITY, tl.float32)
        sums = tl.full([block_h], 0.0, tl.float32)
        acc = tl.full([block_h, block_w], 0.0, tl.float32)
        for first in range(begin, end, block_e):
            edge = first + tl.arange(0, block_e)
            source = tl.load(neighbours + edge, mask=edge < end, other=0).to(tl.int64)
            place = source[:, None, None] * (2 * heads * width) + at[None, :, :]
            mask = (edge < end)[:, None, None] & known[None, :, :]
            k = tl.load(table + place, mask=mask, other=0.0).to(tl.float32)
            v = tl.load(table + place + heads * width, mask=mask, other=0.0).to(tl.float32)
            scores = total(k * q[None, :, :], 2) * (factor * LOG2E)
            scores = tl.where((edge < end)[:, None], scores, -INFINITY)
            new = tl.maximum(top, largest(scores, 0))
            weights = tl.exp2(scores - finite(new)[None, :])
            shrink = tl.exp2(top - finite(new))
            sums = sums * shrink + total(weights, 0)
            acc = acc * shrink[:, None] + total(weights[:, :, None] * v, 0)
            top = new
        acc = acc / tl.where(sums == 0.0, 1.0, sums)[:, None]
        tl.store(mixed + own, acc.to(mixed.dtype.element_ty), mask=known)


@triton.jit(do_not_specialize=["size"])
def settle(
    sums: tl.tensor,  # (rows, width) the new states, before the LayerNorm if there is one
    scale: tl.tensor,
    shift: tl.tensor,
    nodes: tl.tensor,
    active: tl.tensor,
    clock: tl.tensor,
    states: tl.tensor,  # in and out
    woken: tl.tensor,
    last_change: tl.tensor,  # (sources,) in and out, the last round that changed each node
    out_starts: tl.tensor,  # (sources + 1,) the first out-edge of each node
    targets: tl.tensor,  # the destinations of out-edges
    report: tl.tensor,
    size: tl.tensor,
    threshold: tl.tensor,  # square of the tolerance
    levels: tl.constexpr,  # of quantized states; 0 without
    rounds: tl.constexpr,
    norm: tl.constexpr,  # "pre" where changes are relative
    width: tl.constexpr,
    eps: tl.constexpr,
    split: tl.constexpr,
    block_m: tl.constexpr,
    block_w: tl.constexpr,
    block_e: tl.constexpr,
) -> None:
    """Store states that have changed, and mark these nodes and their out-neighbours as awake."""
    number = tl.load(active)
    now = tl.load(clock)
    narrow = states.dtype.element_ty
    for first in range(tl.program_id(0) * block_m, number, tl.num_programs(0) * block_m):
        row = first + tl.arange(0, block_m)
        here = row < number
        node = tl.load(nodes + row, mask=here, other=0)
        at, known = places(row, here, width, block_w)
        at_node, _ = places(node, here, width, block_w)
        new = tl.load(sums + at, mask=known, other=0.0).to(tl.float32)
        if scale is not None:
            apart = tl.where(known, new - (total(new, 1) / width)[:, None], 0.0)
            inverse = 1.0 / tl.sqrt(total(apart * apart, 1) / width + eps)
            new = apart * inverse[:, None] * load_vector(scale, width, block_w)
            new += load_vector(shift, width, block_w)
        new = new.to(narrow).to(tl.float32)
        if levels > 0:
            smooth = (1.0 - 2.0 / (tl.exp(2.0 * new) + 1.0)).to(narrow).to(tl.float32)
            near = (smooth * levels).to(narrow).to(tl.float32)
            new = (((near + EVEN) - EVEN) / levels).to(narrow).to(tl.float32)
        wrong = total(tl.where(known & ((tl.abs(new) < INFINITY) == 0), 1, 0), 1)
        code = (now - 1) % rounds * size + node
        tl.atomic_min(report + row * 0, code, mask=here & (wrong > 0))
        old = tl.load(states + at_node, mask=known, other=0.0).to(tl.float32)
        apart = tl.where(known, new - old, 0.0)
        change = total(apart * apart, 1) / width
        if norm == "pre":
            change = change / tl.maximum(total(old * old, 1) / width, TINY)
        moved = here & (change > threshold)
        tl.store(states + at_node, new.to(narrow), mask=known & moved[:, None])
        later = tl.full([block_m], 1, tl.int32) + now
        tl.store(last_change + node, later - 1, mask=moved)
        tl.store(woken + node, later, mask=moved)
        begin = tl.load(out_starts + node, mask=moved, other=0)
        end = tl.load(out_starts + node + 1, mask=moved, other=0)
        degree = tl.where(end - begin > split, 0, end - begin)  # `wake_far` marks the pieces
        for start in range(0, largest(degree, 0), block_e):
            offset = start + tl.arange(0, block_e)
            mask = offset[None, :] < degree[:, None]
            target = tl.load(targets + begin[:, None] + offset[None, :], mask=mask, other=0)
            tl.store(woken + target, later[:, None] + target * 0, mask=mask)


@triton.jit
def wake_far(
    last_change: tl.tensor,
    clock: tl.tensor,
    woken: tl.tensor,
    out_starts: tl.tensor,
    targets: tl.tensor,
    owner: tl.tensor,  # (pieces,) node of each piece
    start: tl.tensor,  # (pieces,) its first edge
    split: tl.constexpr,
) -> None:
    """Mark the out-neighbours of nodes that have changed and have many, a piece in each program."""
    now = tl.load(clock)
    node = tl.load(owner + tl.program_id(0))
    if tl.load(last_change + node) != now:
        return
    edge = tl.load(start + tl.program_id(0)) + tl.arange(0, split)
    mask = edge < tl.load(out_starts + node + 1)
    target = tl.load(targets + edge, mask=mask, other=0)
    tl.store(woken + target, target * 0 + now + 1, mask=mask)
