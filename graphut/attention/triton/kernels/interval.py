"""Blocks of rows or of sources, and intervals of sources, as `IntervalTables` describe them."""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import FAR


@triton.jit
def rows_before(before, begin, end):
    """Return how many rows come before two destinations."""
    if before is not None:
        begin = tl.load(before + begin)
        end = tl.load(before + end)
    return begin, end


@triton.jit
def locate_rows(edges, sizes, before):
    """Return whether this program has rows, its head, the rows of its block, and their mask."""
    at = edges.row_blocks + 3 * tl.program_id(0)
    begin, end = rows_before(before, tl.load(at), tl.load(at + 1))
    first = begin + tl.load(at + 2)
    row = first + tl.arange(0, sizes.block_m)
    return first < end, tl.program_id(1), row, row < end


@triton.jit
def locate_sources(edges, sizes, before):
    """Return whether there are sources, the head, the sources of the block, their mask, and rows.

    The two numbers for rows are the begin and the end of those that may see a source.
    """
    at = edges.source_blocks + 4 * tl.program_id(0)
    first = tl.load(at)
    last = tl.load(at + 1)
    begin, end = rows_before(before, tl.load(at + 2), tl.load(at + 3))
    source = first + tl.arange(0, sizes.block_n)
    return first < last, tl.program_id(1), source, source < last, begin, end


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
