"""Where the rows, the sources and the edges of a program are.

With `sizes.block_m == 1` an item is one head of a single row (or of a source), or of a piece of
one: its edges are in CSR format, `CSREdges`. Otherwise it is one head of a block of rows (or of
sources): each row attends to an interval of sources, see `IntervalTables`.
"""

import triton
import triton.language as tl

from graphut.attention.triton.kernels.primitives import FAR, largest, row_of


@triton.jit
def locate(call, edges, sizes, item, by_row: tl.constexpr):
    """Find the head of a row (or of a source, unless `by_row`), or of a piece of one.

    Returns `(head, row, mask, place, begin, end)`: the row, whether there is anything to compute,
    where the result goes, and the range of edges. Rows of more than `split` edges are computed in
    pieces only.
    """
    head = item % call.heads
    place = (item // call.heads).to(tl.int64)
    row = place
    if not sizes.in_pieces:
        node = row
        if by_row and call.rows.nodes is not None:
            node = tl.load(call.rows.nodes + row).to(tl.int64)
        begin = tl.load(edges.indptr + node)
        end = tl.load(edges.indptr + node + 1)
        mask = (end >= 0) & (end - begin <= edges.split)
    else:
        node = tl.load(edges.owner + place).to(tl.int64)
        row = node
        mask = row >= 0
        if by_row and call.rows.before is not None:
            row, mask = row_of(call.rows.before, node, mask)
        begin = tl.load(edges.start + place)
        end = tl.minimum(begin + edges.split, tl.load(edges.indptr + node + 1))
    return head, row, mask, place, begin, tl.where(mask, end, begin)


@triton.jit
def edges_at(edges, sizes, first, end):
    """Return the other ends, the ids (0 if outside), and which edges of a block there are."""
    place = first + tl.arange(0, sizes.block_n)
    mask = place < end
    other = tl.load(edges.neighbours + place, mask=mask, other=0)
    edge = place
    if edges.ids is not None:
        edge = tl.load(edges.ids + place, mask=mask, other=0)
    return other, tl.where(mask, edge, 0), mask


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


@triton.jit
def items_left(call, sizes, most):
    """Return the number of items by row, from the first of this program on."""
    if call.rows.number is not None and not sizes.in_pieces:
        most = tl.load(call.rows.number)
    blocks = (most + sizes.block_m - 1) // sizes.block_m
    return blocks * call.heads - tl.program_id(0)


@triton.jit
def rows_of(call, edges, sizes, item, most):
    """Return the head and the rows of an item, and which of them exist.

    Then follow where the results of the rows go, the first edge (or source) of each row, the end of
    them, and a shift from sources to indices of edges.
    """
    if sizes.block_m == 1:
        head, row, mask, place, low, high = locate(call, edges, sizes, item, True)
        shift = 0
    else:
        if call.rows.number is not None:
            most = tl.load(call.rows.number)
        head = item % call.heads
        row = item // call.heads * sizes.block_m + tl.arange(0, sizes.block_m)
        mask = row < most
        place = row
        low, high, shift = load_intervals(edges, call.rows.nodes, row, mask)
    return head, row, mask, place, low, high, shift


@triton.jit
def sources_of(call, edges, sizes, most):
    """Return whether there is anything to compute, the head, the sources, and which of them exist.

    Then follow where the results of the sources go, and the range of edges (or of rows) that may
    see one of them.
    """
    item = tl.program_id(0)
    if sizes.block_m == 1:
        head, source, inside, place, begin, end = locate(call, edges, sizes, item, False)
        do = inside
    else:
        head = item % call.heads
        first = item // call.heads * sizes.block_n
        source = first + tl.arange(0, sizes.block_n)
        until = tl.load(edges.seen_until + source, mask=source < most, other=-1)
        begin = tl.load(edges.seen_from + first).to(tl.int32)
        end = largest(until, 0).to(tl.int32)
        do = end >= 0
        if call.rows.before is not None:
            begin = tl.load(call.rows.before + begin, mask=do, other=0)
            end = tl.load(call.rows.before + end, mask=do, other=0)
        inside = until >= 0
        place = source
    return do, head, source, inside, place, begin, end


@triton.jit
def rows_at(call, edges, sizes, source, start, end):
    """Return some rows, which of them exist, the edge of each pair, and which edges exist."""
    if sizes.block_m == 1:
        row, edge, mask = edges_at(edges, sizes, start, end)
        if call.rows.before is not None:
            row, mask = row_of(call.rows.before, row, mask)
        seen = mask
    else:
        row = start + tl.arange(0, sizes.block_m)
        mask = row < end
        low, high, shift = load_intervals(edges, call.rows.nodes, row, mask)
        edge, seen = pairs_of(edges, source[:, None], low[None, :], high[None, :], shift[None, :])
    return row, mask, edge, seen
