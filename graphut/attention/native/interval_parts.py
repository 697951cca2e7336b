"""Division of the edges of a graph into parts: subsets, each computed by one call of a kernel.

In a strided, dilated, axial or BigBird topology, the sources of each destination form a few runs:
sources that are consecutive, or a fixed stride apart. If a part has at most one run for each
destination, the kernel for intervals is several times as fast as the kernel for lists of sources.
With a stride above 1 it reads the sources sorted by their remainder modulo the stride, which makes
each run an interval. The other edges form one more part, with a list of sources per destination.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from graphut.attention.kernel_library import sort_edges
from graphut.attention.layout import EdgeLayout, IntervalLayout
from graphut.attention.native.ops import Edges, Part

Ints = NDArray[np.int64]
_FEWEST_EDGES = 50_000  # of a layout; with fewer, the division takes longer than it saves
_SAMPLE = 64  # destinations whose differences between successive sources are counted
_STRIDES, _SHARE = 3, 0.1  # the largest number of differences that are tried; their least share
_SHORTEST = 4  # fewest sources in a run
_MOST_PARTS, _LEAST_SAVING = 4, 0.05  # the saving of a part, as a share of the cost of all edges
# Measured times; the unit is one score (of a row and a source) in the kernel for intervals.
_BLOCK, _BLOCK_COST, _ROW_COST, _EDGE_COST = 32, 150, 48, 5
_REORDERED_ROW_COST = 40  # added if sources are sorted by a remainder


class _Rest(NamedTuple):
    """The edges that `divide` has not put into a part yet, sorted by destination, then source."""

    rows: Ints  # (e,) the destination of each edge
    sources: Ints  # (e,)
    ids: Ints  # (e,) edge ids


class _Runs(NamedTuple):
    """Runs of sources `stride` apart, sorted so that neither `low` nor `high` decreases."""

    rows: Ints  # (R,) the destination of each run, which has at most one
    # (R,) the rank of its first source, among all sources sorted by remainder modulo `stride`
    low: Ints
    high: Ints  # (R,) the rank after its last source
    first: Ints  # (R,) the index of its first edge in `edges`
    edges: Ints  # indices, in `_Rest`, of all edges whose ends have the same remainder
    stride: int

    def saving(self) -> float:
        """Return the time that the interval kernel saves on these runs, as a number of scores."""
        begins = np.arange(0, len(self.rows), _BLOCK)
        ends = np.minimum(begins + _BLOCK, len(self.rows)) - 1
        pairs = _BLOCK * (self.high[ends] - self.low[begins]).sum()
        row_cost = _ROW_COST + (0 if self.stride == 1 else _REORDERED_ROW_COST)
        blocks = pairs + _BLOCK_COST * len(begins) + row_cost * len(self.rows)
        return float(_EDGE_COST * (self.high - self.low).sum() - blocks)


def divide(layout: EdgeLayout) -> list[Part]:
    """Divide the edges of a layout into parts; return `[]` if one call for all edges is faster."""
    if layout.num_edges < _FEWEST_EDGES:
        return []
    if isinstance(layout, IntervalLayout) and layout.is_monotone:
        return []
    strides, parts = _strides(layout), list[Part]()
    if not strides:
        return []
    _, *edges = layout.in_edges()
    rest = _Rest(*(x.numpy() for x in (layout.destinations(), *edges)))
    while len(parts) < _MOST_PARTS:
        choices = [runs for stride in strides if (runs := _longest_runs(layout, rest, stride))]
        best = max(choices, key=_Runs.saving, default=None)
        if best is None or best.saving() < _LEAST_SAVING * _EDGE_COST * layout.num_edges:
            break
        part, in_part = _interval_part(layout, rest, best)
        parts.append(part)
        rest = _Rest(*(np.delete(x, in_part) for x in rest))
    if parts and len(rest.rows):
        parts.insert(0, _listed_part(layout, rest))  # before intervals, which add to its results
    return parts


def _strides(layout: EdgeLayout) -> list[int]:
    """Return the most frequent differences between successive sources of sampled destinations."""
    some = torch.linspace(0, layout.num_dst - 1, _SAMPLE, dtype=torch.float64).long().unique()
    rows, sources = (x.numpy() for x in layout.in_edges(some)[:2])
    steps = np.diff(sources)[np.diff(rows) == 0]
    values, counts = np.unique(steps[steps > 0], return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_STRIDES]
    strides = [int(values[i]) for i in order if counts[i] > _SHARE * len(steps)]
    return [stride for stride in strides if stride == 1 or layout.num_src == layout.num_dst]


def _longest_runs(layout: EdgeLayout, rest: _Rest, stride: int) -> _Runs | None:
    """Return the longest run of each destination in `rest`, or None if there are no runs.

    With a stride above 1, the destination has the same remainder modulo `stride` as its sources.
    Runs that cannot be sorted by both ends are shortened or left out.
    """
    edges = np.arange(len(rest.rows))
    if stride > 1:
        edges = edges[(rest.sources - rest.rows) % stride == 0]
    if not len(edges):
        return None
    rows, sources = rest.rows[edges], rest.sources[edges]
    breaks = (np.diff(rows) != 0) | (np.diff(sources) != stride)
    first = np.flatnonzero(np.concatenate([[True], breaks]))
    length = np.diff(first, append=len(edges))
    first, length = first[length >= _SHORTEST], length[length >= _SHORTEST]
    if not len(first):
        return None
    by_length = np.lexsort((length, rows[first]))
    is_last = np.diff(rows[first[by_length]], append=-1) != 0
    best = by_length[is_last]
    first, length = first[best], length[best]
    place, remainder = np.divmod(sources[first], stride)
    least, longer = divmod(layout.num_src, stride)  # `longer` remainders have one source more
    low = remainder * least + np.minimum(remainder, longer) + place
    order = np.lexsort((low + length, low))
    first, low, high = first[order], low[order], (low + length)[order]
    cut = np.minimum.accumulate(high[::-1])[::-1]
    inside = high < np.maximum.accumulate(high)  # of another run
    if (high - cut).sum() <= (high - low)[inside].sum():
        high, kept = cut, cut > low
    else:
        kept = ~inside
    return _Runs(rows[first[kept]], low[kept], high[kept], first[kept], edges, stride)


def _interval_part(layout: EdgeLayout, rest: _Rest, runs: _Runs) -> tuple[Part, Ints]:
    """Return a `Part` with the edges of `runs`, as intervals, and their indices in `rest`."""
    length = runs.high - runs.low
    ends = length.cumsum()
    places = np.arange(ends[-1]) + np.repeat(runs.first - (ends - length), length)
    in_part = runs.edges[places]
    none = torch.empty(0, dtype=torch.int64)
    start, stop, first_edge = (torch.zeros(layout.num_dst, dtype=torch.int64) for _ in range(3))
    rows = torch.from_numpy(runs.rows)
    for index, values in ((start, runs.low), (stop, runs.high), (first_edge, ends - length)):
        index[rows] = torch.from_numpy(values)
    ids = torch.from_numpy(rest.ids[in_part])
    edges = Edges(start, stop, none, first_edge, ids, none, none, none)
    order = None
    if runs.stride > 1:
        order = torch.argsort(torch.arange(layout.num_src) % runs.stride, stable=True)
    return Part(edges, "interval", rows, order), in_part


def _listed_part(layout: EdgeLayout, rest: _Rest) -> Part:
    """Return a `Part` (edges for one kernel call) with all of `rest`, as lists of sources."""
    rows, sources, ids = map(torch.from_numpy, rest)
    starts = torch.zeros(layout.num_dst + 1, dtype=torch.int64)
    starts[1:] = torch.bincount(rows, minlength=layout.num_dst).cumsum(0)
    by_source = sort_edges(rows, sources, layout.num_dst, layout.num_src)
    return Part(Edges(starts, starts[1:], sources, starts, ids, *by_source), "fastest")
