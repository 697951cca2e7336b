"""The Triton kernels of rounds in which nodes wake, as `graphut.nn.EventDriven` says.

They follow each other `count`, `advance`, the update of the rows and `settle`. Beside the arguments
in `graphut.nn.gpu.kernels`, `halted` is the last round in which a node is awake, so far as known,
counted from the first of those that are launched together.
"""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import INFINITY, largest, total
from graphut.nn.gpu.kernels.rows import end_state, load_wide, places

EVEN = tl.constexpr(12582912.0)  # 1.5 * 2**23: adding it rounds to whole numbers, ties to even ones
BLOCK_E = tl.constexpr(16)  # out-edges of a node that are loaded at once
TINY = tl.constexpr(2.0**-46)  # square of the precision of float32


@triton.jit(do_not_specialize=["step"])
def count(shared, step):
    """Count the awake ones of `group` consecutive nodes."""
    node = tl.program_id(0) * shared.group + tl.arange(0, shared.group)
    last = tl.load(shared.halted + node, mask=node < shared.size, other=0)
    at = step * (shared.size // shared.group + 1) + tl.program_id(0)
    tl.store(shared.going + at, total((last >= step).to(tl.int32), 0))


@triton.jit(do_not_specialize=["step"])
def settle(shared, now, norm, waking, step):
    """Store states that have changed, and wake their nodes and out-neighbours."""
    number = tl.load(now.active)
    narrow = shared.states.dtype.element_ty
    step_m = tl.num_programs(0) * shared.block_m
    for first in range(tl.program_id(0) * shared.block_m, number, step_m):
        row = first + tl.arange(0, shared.block_m)
        here = row < number
        node = tl.load(now.nodes + row, mask=here, other=0)
        updates = tl.load(waking.updates + node, mask=here, other=0)
        tl.store(waking.updates + node, updates + 1, mask=here)
        at_node, known = places(shared, node, here)
        new, _even, _inverse = end_state(shared, norm, now.sums, row, here, True)
        if waking.levels > 0:
            smooth = (1.0 - 2.0 / (tl.exp(2.0 * new) + 1.0)).to(narrow).to(tl.float32)
            near = (smooth * waking.levels).to(narrow).to(tl.float32)
            new = (((near + EVEN) - EVEN) / waking.levels).to(narrow).to(tl.float32)
        wrong = total(tl.where(known & ((tl.abs(new) < INFINITY) == 0), 1, 0), 1)
        code = 2 * (step * shared.size + node)
        tl.atomic_min(shared.errors + row * 0, code, mask=here & (wrong > 0))
        old = load_wide(shared.states, at_node, known)
        apart = tl.where(known, new - old, 0.0)
        change = total(apart * apart, 1) / shared.width
        if waking.is_relative:
            change = change / tl.maximum(total(old * old, 1) / shared.width, TINY)
        moved = here & (change > waking.threshold)
        tl.store(shared.states + at_node, new.to(narrow), mask=known & moved[:, None])
        round_of = tl.full([shared.block_m], 0, tl.int32) + step
        tl.store(waking.last_change + node, round_of, mask=moved)
        tl.store(shared.halted + node, round_of + 1, mask=moved)
        begin = tl.load(waking.out_edges.indptr + node, mask=moved, other=0)
        degree = tl.load(waking.out_edges.indptr + node + 1, mask=moved, other=0) - begin
        for start in range(0, largest(degree, 0), BLOCK_E):
            offset = start + tl.arange(0, BLOCK_E)
            mask = offset[None, :] < degree[:, None]
            edge = begin[:, None] + offset[None, :]
            target = tl.load(waking.out_edges.neighbours + edge, mask=mask, other=0)
            tl.store(shared.halted + target, target * 0 + step + 1, mask=mask)
