"""Edge layouts: who attends to whom, in the form that kernels read.

Where the in-neighbours of every destination are one interval of sources, two integers a
destination replace all its edges (`IntervalLayout`); anything else is compressed rows by
destination (`CSRLayout`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from graphut.attention.cached_property import cached_property

Device = torch.device | str
T = TypeVar("T")


@dataclass(frozen=True, eq=False, kw_only=True)
class EdgeLayout(ABC):
    """The edges of a graph by destination; made by `IntervalLayout` or `CSRLayout`.

    The *canonical order* of edges is by destination, then by source. Where the
    graph's own edge ids differ from it, `edge_ids[e]` is the graph's id of
    canonical edge `e`; `None` says that they are the same.
    """

    num_src: int
    dst_lengths: Tensor  # (batch,) int64 on the CPU: destinations of each sentence
    src_lengths: Tensor  # (batch,) int64 on the CPU: sources of each sentence
    edge_ids: Tensor | None = None
    extra_nodes: bool = False  # whether some nodes are known to stand for no token
    # Facts that take a look at the numbers: found once, before nodes attend, and moved along.
    _facts: dict[str, int] = field(default_factory=dict, repr=False)
    _moved: dict[torch.device, Any] = field(default_factory=dict, repr=False)
    _derived: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    _index_names: ClassVar[tuple[str, ...]]  # the fields that hold index tensors

    def __post_init__(self) -> None:
        """Find out the facts, unless they are those of a layout on another device."""
        if not self._facts:
            self._facts.update(self._find_facts())

    def _find_facts(self) -> dict[str, int]:
        return {"empty_rows": int((self.in_degrees == 0).sum())}

    @property
    def has_empty_rows(self) -> bool:
        """True if some destination has no in-edge."""
        return self._facts["empty_rows"] > 0

    @property
    @abstractmethod
    def num_dst(self) -> int:
        """Number of destination nodes."""

    @property
    @abstractmethod
    def num_edges(self) -> int:
        """Number of edges."""

    @property
    def device(self) -> torch.device:
        """Device of the index tensors."""
        first: Tensor = getattr(self, self._index_names[0])
        return first.device

    @property
    @abstractmethod
    def in_degrees(self) -> Tensor:
        """In-edges of each destination, `(num_dst,)`."""

    @cached_property
    def row_starts(self) -> Tensor:
        """Canonical index of each destination's first edge, `(num_dst + 1,)`."""
        zero = torch.zeros(1, dtype=torch.int64, device=self.device)
        return torch.cat([zero, self.in_degrees.cumsum(0)])

    @abstractmethod
    def sources_of(self, rows: Tensor, offsets: Tensor) -> Tensor:
        """Return the source of the `offsets[e]`-th in-edge of each destination `rows[e]`."""

    @abstractmethod
    def sources(self) -> Tensor:
        """Return the source of every edge in canonical order, `(num_edges,)`."""

    def in_edges(self, rows: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the in-edges of the destinations `rows`, of all if not given.

        Returns
        -------
        tuple of Tensor
            `(row, source, edge)`, one entry an edge in canonical order: the index
            into `rows`, the source node, and the edge id in the graph's own order.
        """
        if rows is None:
            rows = torch.arange(self.num_dst, device=self.device)
        degrees = self.in_degrees[rows]
        index = torch.repeat_interleave(degrees)
        first = degrees.cumsum(0) - degrees
        offset = torch.arange(index.numel(), device=self.device) - first[index]
        node = rows[index]
        edge = self.row_starts[node] + offset
        source = self.sources_of(node, offset)
        return index, source, edge if self.edge_ids is None else self.edge_ids[edge]

    def to(self, device: Device) -> EdgeLayout:
        """Return the layout on another device, copied there once and then kept."""
        target = torch.device(device)
        if target == self.device:
            return self
        if target not in self._moved:
            indices = {name: getattr(self, name) for name in (*self._index_names, "edge_ids")}
            copies: dict[str, Any] = {
                name: None if x is None else x.to(target) for name, x in indices.items()
            }
            self._moved[target] = replace(self, **copies, _moved={self.device: self})
        moved: EdgeLayout = self._moved[target]
        return moved

    def derive(self, make: Callable[..., T], *sizes: int) -> T:
        """Return `make(layout, *sizes)`, made once and kept with the layout."""
        key = (make, sizes) if sizes else make
        if key not in self._derived:
            self._derived[key] = make(self, *sizes)
        made: T = self._derived[key]
        return made


@dataclass(frozen=True, eq=False, kw_only=True)
class IntervalLayout(EdgeLayout):
    """Destination `i` attends to the sources `lo[i], ..., hi[i] - 1`.

    Parameters
    ----------
    lo, hi : Tensor
        `(num_dst,)` int64; `lo[i] == hi[i]` where there is no in-edge.

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

    lo: Tensor
    hi: Tensor
    _index_names: ClassVar = ("lo", "hi")

    def _find_facts(self) -> dict[str, int]:
        filled = self.hi > self.lo
        lo, hi = (self.lo, self.hi) if bool(filled.all()) else (self.lo[filled], self.hi[filled])
        return {
            **super()._find_facts(),
            "edges": int((hi - lo).sum()),
            "falls": int((lo[1:] < lo[:-1]).sum() + (hi[1:] < hi[:-1]).sum()),
        }

    @property
    def is_monotone(self) -> bool:
        """True if no interval begins or ends before an earlier one, empty ones left out."""
        return self._facts["falls"] == 0

    @property
    def num_dst(self) -> int:
        """Number of destination nodes."""
        return self.lo.numel()

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return self._facts["edges"]

    @cached_property
    def in_degrees(self) -> Tensor:
        """In-edges of each destination, `(num_dst,)`."""
        return self.hi - self.lo

    def sources_of(self, rows: Tensor, offsets: Tensor) -> Tensor:
        """Return the source of the `offsets[e]`-th in-edge of each destination `rows[e]`."""
        return self.lo[rows] + offsets

    def sources(self) -> Tensor:
        """Return the source of every edge in canonical order."""
        shift = torch.repeat_interleave(self.lo - self.row_starts[:-1], self.in_degrees)
        return torch.arange(shift.numel(), device=self.device) + shift


@dataclass(frozen=True, eq=False, kw_only=True)
class CSRLayout(EdgeLayout):
    """Destination `i` attends to the sources `indices[indptr[i]:indptr[i + 1]]`.

    Parameters
    ----------
    indptr : Tensor
        `(num_dst + 1,)` int64, the first edge of each destination.
    indices : Tensor
        `(num_edges,)` int64, the source of each edge.
    """

    indptr: Tensor
    indices: Tensor
    _index_names: ClassVar = ("indptr", "indices")

    @property
    def num_dst(self) -> int:
        """Number of destination nodes."""
        return self.indptr.numel() - 1

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return self.indices.numel()

    @cached_property
    def in_degrees(self) -> Tensor:
        """In-edges of each destination, `(num_dst,)`."""
        return self.indptr.diff()

    @cached_property
    def row_starts(self) -> Tensor:
        """Canonical index of each destination's first edge, `(num_dst + 1,)`."""
        return self.indptr

    def sources_of(self, rows: Tensor, offsets: Tensor) -> Tensor:
        """Return the source of the `offsets[e]`-th in-edge of each destination `rows[e]`."""
        return self.indices[self.indptr[rows] + offsets]

    def sources(self) -> Tensor:
        """Return the source of every edge in canonical order."""
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
    """Return the layout of an edge list in any order: intervals where they fit, else CSR.

    Parameters
    ----------
    src, dst : Tensor
        `(num_edges,)` int64, the ends of each edge; an edge may occur more than once.
    num_src, num_dst : int
        Number of nodes on either side.
    src_lengths, dst_lengths : Tensor, optional
        `(batch,)` nodes of each sentence or graph of the batch; one graph if not given.
    extra_nodes : bool
        Whether some nodes stand for no token.

    Raises
    ------
    ValueError
        If an edge's end is not one of the nodes.

    Examples
    --------
    >>> import torch
    >>> layout_from_edges(torch.tensor([1, 0, 1]), torch.tensor([1, 1, 0]),
    ...                   num_src=2, num_dst=2).in_degrees
    tensor([1, 2])
    """
    _check_range("src", src, num_src)
    _check_range("dst", dst, num_dst)
    place = dst * num_src + src
    order = None
    if bool((place[1:] < place[:-1]).any()):
        order = torch.argsort(place, stable=True)
        src, dst = src[order], dst[order]
    degrees = torch.bincount(dst, minlength=num_dst)
    indptr = torch.cat([degrees.new_zeros(1), degrees.cumsum(0)])
    batch: dict[str, Any] = {
        "num_src": num_src,
        "src_lengths": torch.tensor([num_src]) if src_lengths is None else src_lengths.cpu(),
        "dst_lengths": torch.tensor([num_dst]) if dst_lengths is None else dst_lengths.cpu(),
        "edge_ids": order,
        "extra_nodes": extra_nodes,
    }
    same_row, steps_by_one = dst[1:] == dst[:-1], src[1:] == src[:-1] + 1
    if bool((steps_by_one | ~same_row).all()):
        lo = torch.zeros(num_dst, dtype=torch.int64, device=src.device)
        filled = degrees > 0
        lo[filled] = src[indptr[:-1][filled]]
        return IntervalLayout(lo=lo, hi=lo + degrees, **batch)
    return CSRLayout(indptr=indptr, indices=src, **batch)


def _check_range(name: str, ends: Tensor, num_nodes: int) -> None:
    outside = (ends < 0) | (ends >= num_nodes)
    if bool(outside.any()):
        node = int(ends[outside][0])
        raise ValueError(f"{name} holds node {node}, but there are {num_nodes} nodes on that side")
