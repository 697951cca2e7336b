"""Blocks of rows or of sources, and intervals of sources, as `IntervalTables` describe them."""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import FAR, largest


@triton.jit
def locate_rows(call, sizes, most):
    """Return whether this program has rows, its head, the rows of its block, and their mask."""
    number = most
    if call.rows.number is not None:
        number = tl.load(call.rows.number)
    first = tl.program_id(0) * sizes.block_m
    row = first + tl.arange(0, sizes.block_m)
    return first < number, tl.program_id(1), row, row < number


@triton.jit
def locate_sources(edges, sizes, most, before):
    """Return whether there are sources, the head, the sources of the block, their mask, and rows.

    The two numbers for rows are the begin and the end of those that may see a source.
    """
    source = tl.program_id(0) * sizes.block_n + tl.arange(0, sizes.block_n)
    until = tl.load(edges.seen_until + source, mask=source < most, other=-1)
    begin = tl.load(edges.seen_from + tl.program_id(0) * sizes.block_n).to(tl.int32)
    end = largest(until, 0).to(tl.int32)
    do = end >= 0
    if before is not None:
        begin = tl.load(before + begin, mask=do, other=0)
        end = tl.load(before + end, mask=do, other=0)
    return do, tl.program_id(1), source, until >= 0, begin, end


@triton.jit
def load_intervals(edges, nodes, row, mask):
    """Return the first source of each row, the end of its sources, and a shift.

    Rows without sources begin at `FAR` and end at 0. The index of an edge is its source plus the
    shift, where edges have indices at all.
    """
    node = row
    if nodes is not None:
        node = tl.load(nodes + row, mask=mask, other=0)
    lo = tl.load(edges.lo + node, mask=mask, other=0)
    begin = lo.to(tl.int32)
    until = tl.load(edges.hi + node, mask=mask, other=0).to(tl.int32)
    shift = lo
    if edges.row_starts is not None:
        shift = tl.load(edges.row_starts + node, mask=mask, other=0) - lo
    seen = begin < until
    return tl.where(seen, begin, FAR), tl.where(seen, until, 0), shift


@triton.jit
def pairs_of(edges, source, low, high, shift):
    """Return the edge id of each pair of a row and a source (0 without an edge), and a mask."""
    seen = (source >= low) & (source < high)
    edge = tl.where(seen, shift + source, 0)
    if edges.ids is not None:
        edge = tl.load(edges.ids + edge, mask=seen, other=0)
    return edge, seen
