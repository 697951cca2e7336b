"""Edge layouts: the edges of a graph in the form that kernels read.

`IntervalLayout` needs two integers for each destination, because its in-neighbours are
consecutive. `CSRLayout` holds all other graphs in compressed sparse row (CSR) format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, ClassVar, TypeVar
from weakref import ref

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphut.attention.checks import check_index, check_range
from graphut.attention.kernel_library import sort_edges
from graphut.attention.ragged import ragged_arange
from graphut.attention.tracing import cached_property, outside_inference

Device = torch.device | str
T = TypeVar("T")
_ALIGNED = 16  # bytes; kernels are compiled for such addresses


@dataclass(frozen=True, eq=False, kw_only=True)
class EdgeLayout(ABC):
    """The edges of a graph by destination: an `IntervalLayout` or a `CSRLayout`.

    The *canonical order* of edges is by destination, then by source. `edge_ids[e]` is the graph's
    id of edge number `e` in this order; `None` if the ids are in canonical order.

    `layout_from_edges`, `as_layout` and topologies make layouts. The constructors do not check that
    the indices are in range, and kernels would read outside of the features.
    """

    num_src: int  #: number of source nodes
    dst_lengths: Tensor  #: (batch,) int64 on the CPU, destinations of each sentence
    src_lengths: Tensor  #: (batch,) int64 on the CPU, sources of each sentence
    edge_ids: Tensor | None = None
    extra_nodes: bool = False  #: True if some nodes are not tokens
    #: the types of nodes and edges, which `graphut.nn.HeteroAttention` stores
    types: Any = field(default=None, init=False, repr=False)
    #: a `graphut.distributed.Halo` if the sources after the destinations belong to other processes
    halo: Any = None
    # Properties that depend on the indices. They are computed once, and copied to other devices.
    _facts: dict[str, int] = field(default_factory=dict, repr=False)
    _copies: dict[torch.device, EdgeLayout] = field(default_factory=dict, repr=False)
    # Weak: a cycle of references would keep memory of a device until a garbage collection.
    _original: ref[EdgeLayout] | None = field(default=None, repr=False)
    _cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    _index_names: ClassVar[tuple[str, ...]]  # the fields with index tensors

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_dst={self.num_dst}, num_src={self.num_src}, "
            f"num_edges={self.num_edges}, sentences={len(self.dst_lengths)})"
        )

    def __post_init__(self) -> None:
        if not self._facts:
            for name in self._index_names:
                check_index(name, getattr(self, name))
            with outside_inference():
                self._facts.update(self._find_facts())

    def __getstate__(self) -> dict[str, Any]:
        state = {**vars(self), "_copies": {}, "_cache": {}, "_original": None}
        state.pop("device", None)  # a file can be loaded to another device
        return state

    def _find_facts(self) -> dict[str, int]:
        return {"empty_rows": int((self.in_degrees == 0).sum())}

    @property
    def has_empty_rows(self) -> bool:
        """True if some destination has no in-edge."""
        return self._facts["empty_rows"] > 0

    @property
    def num_dst(self) -> int:
        """Number of destination nodes."""
        return self.in_degrees.numel()

    @property
    @abstractmethod
    def num_edges(self) -> int:
        """Number of edges."""

    @cached_property
    def device(self) -> torch.device:
        """Device of the index tensors."""
        first: Tensor = getattr(self, self._index_names[0])
        return first.device

    @property
    @abstractmethod
    def in_degrees(self) -> Tensor:
        """In-degree of each destination, `(num_dst,)`."""

    @cached_property
    def row_starts(self) -> Tensor:
        """Index of each destination's first edge in canonical order, `(num_dst + 1,)`."""
        zero = torch.zeros(1, dtype=torch.int64, device=self.device)
        return torch.cat([zero, self.in_degrees.cumsum(0)])

    @abstractmethod
    def _sources_of(self, rows: Tensor, offsets: Tensor) -> Tensor:
        """Return the source of in-edge `offsets[e]` of destination `rows[e]`, for each `e`."""

    def destinations(self) -> Tensor:
        """Return each edge's destination, `(num_edges,)`, sorted by destination, then by source."""
        return torch.repeat_interleave(self.in_degrees, output_size=self.num_edges)

    @abstractmethod
    def sources(self) -> Tensor:
        """Return the source of every edge in canonical order, `(num_edges,)`."""

    def in_edges(self, rows: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return `(row, source, edge)` for each in-edge of the destinations `rows`, or of all.

        `row` is the index into `rows` (without `rows`, the destination), `source` the source node,
        and `edge` the edge id of the graph.
        """
        if rows is None:
            edge = self.edge_ids
            if edge is None:
                edge = torch.arange(self.num_edges, device=self.device)
            return self.destinations(), self.sources(), edge
        degrees = self.in_degrees[rows]
        index, offset = ragged_arange(degrees)
        node = rows[index]
        edge = self.row_starts[node] + offset
        source = self._sources_of(node, offset)
        return index, source, edge if self.edge_ids is None else self.edge_ids[edge]

    def to(self, device: Device) -> EdgeLayout:
        """Return the layout on a device; a copy is made once, and stored for later calls."""
        target = torch.device(device)
        return self if target == self.device else upload([self], target)[0]

    def original(self) -> EdgeLayout:
        """Return the layout that this one was copied from, while it exists; else this layout."""
        original = None if self._original is None else self._original()
        return self if original is None else original

    def _on(self, device: torch.device) -> EdgeLayout | None:
        """Return the copy of the layout on a device, or None if no copy was made."""
        if device == self.device:
            return self
        original = self.original()
        return self._copies.get(device) if original is self else original._on(device)

    def _tensors(self) -> dict[Any, Tensor]:
        """Return a dictionary from names to the tensors that a copy on another device needs."""
        indices: dict[Any, Tensor] = {name: getattr(self, name) for name in self._index_names}
        if self.edge_ids is not None:
            indices["edge_ids"] = self.edge_ids
        return indices | {
            (make, i): x for make in UPLOADED for i, x in enumerate(self.cached(make))
        }

    def _copy(self, tensors: dict[Any, Any], device: torch.device) -> EdgeLayout:
        """Make a copy of the layout on `device` from `tensors` there; store and return the copy."""
        names = {make: range(len(self.cached(make))) for make in UPLOADED}
        derived = {make: tuple(tensors.pop((make, i)) for i in names[make]) for make in UPLOADED}
        copy = replace(self, **tensors, _copies={}, _original=ref(self))
        copy._cache.update(derived)
        self._copies[device] = copy
        return copy

    def cached(self, make: Callable[..., T], *args: Hashable) -> T:
        """Return `make(layout, *args)`, which is computed once and then stored in the layout."""
        key = (make, args) if args else make
        if key in self._cache:
            stored: T = self._cache[key]
            return stored
        with outside_inference():
            result = make(self, *args)
        self._cache[key] = result
        return result


def node_counts(layout: EdgeLayout) -> tuple[Tensor]:
    """Return the numbers of sources and of destinations, `(2,)` int64."""
    return (torch.tensor([layout.num_src, layout.num_dst]).to(layout.device),)


def seen_by(layout: EdgeLayout) -> tuple[Tensor, Tensor]:
    """Return the first destination that may see each source, and the end of them.

    Both are `(full_size(num_src),)`, and -1 after the last source. They are empty if the layout has
    no monotone intervals; see `IntervalLayout.is_monotone`.
    """
    if not (isinstance(layout, IntervalLayout) and layout.is_monotone):
        return (torch.arange(0, device=layout.device),) * 2
    low, high, source = layout.lo, layout.hi, torch.arange(layout.num_src, device=layout.device)
    if layout.has_empty_rows:  # they are replaced by the rows before them
        low, high = (torch.where(low < high, x, 0).cummax(0).values for x in (low, high))
    more = full_size(layout.num_src) - layout.num_src
    first, end = (torch.searchsorted(x, source, right=True) for x in (high, low))
    return pad(first, (0, more), value=-1), pad(end, (0, more), value=-1)


def full_size(number: int) -> int:
    """Round a number up to one of few sizes, so that many batches have the same program.

    These are powers of two up to 4096, and then at most an eighth more than the number.

    Examples
    --------
    >>> [full_size(number) for number in (0, 1, 16, 100, 2240, 4097)]
    [0, 16, 16, 128, 4096, 4608]
    """
    if number <= 4096:
        return max(16, 1 << (number - 1).bit_length()) if number else 0
    unit = 1 << (number.bit_length() - 4)
    return -(-number // unit) * unit


# Functions whose tensors a copy on another device stores from the beginning.
UPLOADED: tuple[Callable[[EdgeLayout], tuple[Tensor, ...]], ...] = (node_counts, seen_by)


def upload(items: Sequence[Any], device: Device) -> list[Any]:
    """Copy tensors and layouts to a device in one transfer, and return the copies.

    From the CPU to a GPU, all data go through one block of pinned memory, and the host does not
    wait for the device. A layout stores its copy, and later calls return this copy.
    """
    target = torch.device(device)
    for item in items:
        if item.device != target:
            break
    else:
        return [*items]
    copies = [None if isinstance(item, Tensor) else item._on(target) for item in items]
    parts = [
        {"": item} if isinstance(item, Tensor) else item._tensors() if copy is None else {}
        for item, copy in zip(items, copies, strict=True)
    ]
    with outside_inference():
        arrived = iter(_send([x for part in parts for x in part.values()], target))
    for place, (item, part) in enumerate(zip(items, parts, strict=True)):
        tensors = {name: next(arrived) for name in part}
        if tensors:
            copies[place] = tensors[""] if isinstance(item, Tensor) else item._copy(tensors, target)
    return copies


def _send(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    if device.type != "cuda" or {x.device.type for x in tensors} != {"cpu"}:
        return [x.to(device) for x in tensors]
    *starts, size = accumulate((-(-x.nbytes // _ALIGNED) * _ALIGNED for x in tensors), initial=0)
    pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    for start, x in zip(starts, tensors, strict=True):
        _view(pinned, start, x).copy_(x)
    arrived = pinned.to(device, non_blocking=True)
    return [_view(arrived, start, x) for start, x in zip(starts, tensors, strict=True)]


def _view(memory: Tensor, start: int, like: Tensor) -> Tensor:
    return memory[start : start + like.nbytes].view(like.dtype).view(like.shape)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class IntervalLayout(EdgeLayout):
    """Destination `i` attends to the sources `lo[i], ..., hi[i] - 1`.

    Examples
    --------
    >>> import torch
    >>> one = torch.tensor([3])
    >>> causal = IntervalLayout(lo=torch.tensor([0, 0, 0]), hi=torch.tensor([1, 2, 3]),
    ...                         num_src=3, dst_lengths=one, src_lengths=one)
    >>> causal.num_edges
    6
    >>> causal.in_edges(torch.tensor([1]))[1]
    tensor([0, 1])
    """

    lo: Tensor  #: (num_dst,) int64, the first source of each destination
    hi: Tensor  #: (num_dst,) int64, the end of its sources; equal to `lo` without in-edges
    _index_names: ClassVar = ("lo", "hi")

    def _find_facts(self) -> dict[str, int]:
        facts, lo, hi = super()._find_facts(), self.lo, self.hi
        if facts["empty_rows"]:
            filled = self.in_degrees > 0
            lo, hi = lo[filled], hi[filled]
        falls = (lo[1:] < lo[:-1]).sum() + (hi[1:] < hi[:-1]).sum()
        return {**facts, "edges": int(self.in_degrees.sum()), "falls": int(falls)}

    @property
    def is_monotone(self) -> bool:
        """True if neither `lo` nor `hi` decreases from row to row, not counting empty intervals."""
        return self._facts["falls"] == 0

    @property
    def num_dst(self) -> int:
        return self.lo.numel()

    @property
    def num_edges(self) -> int:
        return self._facts["edges"]

    @cached_property
    def in_degrees(self) -> Tensor:
        return self.hi - self.lo

    def _sources_of(self, rows: Tensor, offsets: Tensor) -> Tensor:
        return self.lo[rows] + offsets

    def sources(self) -> Tensor:
        shift = (self.lo - self.row_starts[:-1])[self.destinations()]
        return torch.arange(self.num_edges, device=self.device) + shift


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class CSRLayout(EdgeLayout):
    """Destination `i` attends to the sources `indices[indptr[i]:indptr[i + 1]]`."""

    indptr: Tensor  #: (num_dst + 1,) int64, the first edge of each destination
    indices: Tensor  #: (num_edges,) int64, the source of each edge
    _index_names: ClassVar = ("indptr", "indices")

    @property
    def num_dst(self) -> int:
        return self.indptr.numel() - 1

    @property
    def num_edges(self) -> int:
        return self.indices.numel()

    @cached_property
    def in_degrees(self) -> Tensor:
        return self.indptr.diff()

    @cached_property
    def row_starts(self) -> Tensor:
        return self.indptr

    def _sources_of(self, rows: Tensor, offsets: Tensor) -> Tensor:
        return self.indices[self.indptr[rows] + offsets]

    def sources(self) -> Tensor:
        return self.indices


def layout_from_edges(
    src: Tensor,
    dst: Tensor,
    *,
    num_src: int,
    num_dst: int,
    src_lengths: Tensor | None = None,
    dst_lengths: Tensor | None = None,
    extra_nodes: bool = False,
) -> EdgeLayout:
    """Return the layout of an edge list: an `IntervalLayout` if possible, else a `CSRLayout`.

    Parameters
    ----------
    src, dst : Tensor
        `(num_edges,)` int64, source and destination of each edge, in any order; edges may repeat.
    num_src, num_dst : int
        Number of sources and of destinations.
    src_lengths, dst_lengths : Tensor, optional
        `(batch,)` number of nodes of each sentence or graph of the batch; one graph by default.
    extra_nodes : bool
        Whether some nodes are not tokens.

    Raises
    ------
    TypeError, ValueError
        If `src` and `dst` are not 1-D int64 tensors of one length, if an edge refers to a node that
        does not exist, or if the lengths do not add up to the number of nodes.

    Examples
    --------
    >>> import torch
    >>> layout_from_edges(torch.tensor([1, 0, 1]), torch.tensor([1, 1, 0]),
    ...                   num_src=2, num_dst=2).in_degrees
    tensor([1, 2])
    """
    for name, ends in (("src", src), ("dst", dst)):
        check_index(name, ends)
    if len(src) != len(dst):
        raise ValueError(f"src has {len(src)} edges, but dst has {len(dst)}")
    check_range("src", src, num_src)
    check_range("dst", dst, num_dst)
    src_lengths = torch.tensor([num_src]) if src_lengths is None else src_lengths.cpu().clone()
    dst_lengths = torch.tensor([num_dst]) if dst_lengths is None else dst_lengths.cpu().clone()
    _check_lengths("src_lengths", src_lengths, num_src)
    _check_lengths("dst_lengths", dst_lengths, num_dst)
    place = dst * num_src + src
    order = None
    if bool((place[1:] < place[:-1]).any()):
        indptr, src, order = sort_edges(src, dst, num_src, num_dst)
    else:
        indptr = torch.searchsorted(dst.contiguous(), torch.arange(num_dst + 1, device=dst.device))
    batch: dict[str, Any] = {"src_lengths": src_lengths, "dst_lengths": dst_lengths}
    batch |= {"num_src": num_src, "edge_ids": order, "extra_nodes": extra_nodes}
    steps_by_one, rows = src.diff() == 1, indptr[1:-1]
    steps_by_one[rows[(rows > 0) & (rows < len(src))] - 1] = True  # between two rows
    if bool(steps_by_one.all()):
        degrees, lo = indptr.diff(), indptr.new_zeros(num_dst)
        filled = degrees > 0
        lo[filled] = src[indptr[:-1][filled]]
        return IntervalLayout(lo=lo, hi=lo + degrees, **batch)
    return CSRLayout(indptr=indptr, indices=src.clone() if order is None else src, **batch)


def _check_lengths(name: str, lengths: Tensor, num_nodes: int) -> None:
    if lengths.numel() and int(lengths.min()) < 0:
        raise ValueError(f"{name} contains {int(lengths.min())}: a length must not be negative")
    if (total := int(lengths.sum())) != num_nodes:
        raise ValueError(f"{name} add up to {total}, but there are {num_nodes} nodes")
