"""The Triton kernels of rounds in which nodes wake, as `graphut.nn.EventDriven` says.

They follow each other `count`, `advance`, the update of the rows and `settle`. Beside the arguments
in `graphut.nn.gpu.kernels`, `halted` is the last round in which a node is awake, so far as known,
counted from the first of those that are launched together.

Programs of `attend` and `settle` take several rows, one after the other: a program for each node
would cost more than the few nodes that are awake.
"""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import INFINITY, LOG2E, finite, largest, total
from graphut.nn.gpu.kernels.rows import load_vector, places

EVEN = tl.constexpr(12582912.0)  # 1.5 * 2**23: adding it rounds to whole numbers, ties to even ones
TINY = tl.constexpr(2.0**-46)  # square of the precision of float32


@triton.jit(do_not_specialize=["step", "size", "groups"])
def count(
    halted: tl.tensor,
    going: tl.tensor,
    step: tl.tensor,
    size: tl.tensor,
    groups: tl.tensor,
    group: tl.constexpr,
) -> None:
    """Count the awake ones of `group` consecutive nodes."""
    node = tl.program_id(0) * group + tl.arange(0, group)
    last = tl.load(halted + node, mask=node < size, other=0)
    tl.store(going + step * groups + tl.program_id(0), total((last >= step).to(tl.int32), 0))


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
        end = tl.where(end - begin > split, begin, end)  # `rows_forward` computes the pieces
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


@triton.jit(do_not_specialize=["step", "size"])
def settle(
    sums: tl.tensor,  # (rows, width) the new states, before the LayerNorm if there is one
    scale: tl.tensor,
    shift: tl.tensor,
    nodes: tl.tensor,
    active: tl.tensor,
    states: tl.tensor,  # (sources, width) in and out
    halted: tl.tensor,  # in and out
    updates: tl.tensor,  # (sources,) in and out, how often each node has computed
    last_change: tl.tensor,  # (sources,) in and out, the last round that has changed a node
    out_starts: tl.tensor,  # (sources + 1,) the first out-edge of each node
    targets: tl.tensor,  # the destinations of out-edges
    errors: tl.tensor,
    step: tl.tensor,
    size: tl.tensor,
    threshold: tl.tensor,  # square of the tolerance
    levels: tl.constexpr,
    norm: tl.constexpr,  # "pre" where changes are relative
    width: tl.constexpr,
    eps: tl.constexpr,
    block_m: tl.constexpr,
    block_w: tl.constexpr,
    block_e: tl.constexpr,
) -> None:
    """Store states that have changed, and wake their nodes and out-neighbours."""
    number = tl.load(active)
    narrow = states.dtype.element_ty
    for first in range(tl.program_id(0) * block_m, number, tl.num_programs(0) * block_m):
        row = first + tl.arange(0, block_m)
        here = row < number
        node = tl.load(nodes + row, mask=here, other=0)
        tl.store(updates + node, tl.load(updates + node, mask=here, other=0) + 1, mask=here)
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
        tl.atomic_min(errors + row * 0, 2 * (step * size + node), mask=here & (wrong > 0))
        old = tl.load(states + at_node, mask=known, other=0.0).to(tl.float32)
        apart = tl.where(known, new - old, 0.0)
        change = total(apart * apart, 1) / width
        if norm == "pre":
            change = change / tl.maximum(total(old * old, 1) / width, TINY)
        moved = here & (change > threshold)
        tl.store(states + at_node, new.to(narrow), mask=known & moved[:, None])
        now = tl.full([block_m], 0, tl.int32) + step
        tl.store(last_change + node, now, mask=moved)
        tl.store(halted + node, now + 1, mask=moved)
        begin = tl.load(out_starts + node, mask=moved, other=0)
        degree = tl.load(out_starts + node + 1, mask=moved, other=0) - begin
        for start in range(0, largest(degree, 0), block_e):
            offset = start + tl.arange(0, block_e)
            mask = offset[None, :] < degree[:, None]
            target = tl.load(targets + begin[:, None] + offset[None, :], mask=mask, other=0)
            tl.store(halted + target, target * 0 + step + 1, mask=mask)
