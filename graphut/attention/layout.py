"""Edge layouts: who attends to whom, in the form that kernels read.

Where the in-neighbours of every destination are one contiguous run of sources,
two integers a destination replace all its edges (`IntervalLayout`); anything
else is compressed rows by destination (`CSRLayout`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

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
    # What takes a look at the numbers: found out once, not while nodes attend, and moved along.
    _facts: dict[str, int] = field(default_factory=dict, repr=False)
    _moved: dict[torch.device, Any] = field(default_factory=dict, repr=False)
    _derived: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self._facts:
            self._facts.update(self._look())

    def _look(self) -> dict[str, int]:
        return {"empty_rows": int((self.in_degrees == 0).sum())}

    @property
    def has_empty_rows(self) -> bool:
        """Whether some destination has no in-edge."""
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
    @abstractmethod
    def device(self) -> torch.device:
        """Where the index tensors lie."""

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
        """Source of the `offsets[e]`-th in-edge of destination `rows[e]`."""

    @abstractmethod
    def sources(self) -> Tensor:
        """Source of every edge in canonical order, `(num_edges,)`."""

    def in_edges(self, rows: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """In-edges of the destinations `rows` (all, without them).

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
        """The layout on another device, copied there once and then kept."""
        target = torch.device(device)
        if target == self.device:
            return self
        if target not in self._moved:
            self._moved[target] = self._copy_to(target)
        moved: EdgeLayout = self._moved[target]
        return moved

    def derive(self, make: Callable[[EdgeLayout], T]) -> T:
        """`make(layout)`, made once and kept: what a backend works out from the edges."""
        if make not in self._derived:
            self._derived[make] = make(self)
        made: T = self._derived[make]
        return made

    @abstractmethod
    def _copy_to(self, device: torch.device) -> EdgeLayout:
        """The layout on `device`."""

    def _moved_ids(self, device: torch.device) -> Tensor | None:
        return None if self.edge_ids is None else self.edge_ids.to(device)


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

    def _look(self) -> dict[str, int]:
        filled = self.hi > self.lo
        lo, hi = (self.lo, self.hi) if bool(filled.all()) else (self.lo[filled], self.hi[filled])
        return {
            **super()._look(),
            "edges": int((hi - lo).sum()),
            "falls": int((lo[1:] < lo[:-1]).sum() + (hi[1:] < hi[:-1]).sum()),
        }

    @property
    def is_monotone(self) -> bool:
        """Whether the runs go forward from row to row, so that neighbours can share them."""
        return self._facts["falls"] == 0

    @property
    def num_dst(self) -> int:
        return self.lo.numel()

    @property
    def num_edges(self) -> int:
        return self._facts["edges"]

    @property
    def device(self) -> torch.device:
        return self.lo.device

    @cached_property
    def in_degrees(self) -> Tensor:
        return self.hi - self.lo

    def sources_of(self, rows: Tensor, offsets: Tensor) -> Tensor:
        return self.lo[rows] + offsets

    def sources(self) -> Tensor:
        shift = torch.repeat_interleave(self.lo - self.row_starts[:-1], self.in_degrees)
        return torch.arange(shift.numel(), device=self.device) + shift

    def _copy_to(self, device: torch.device) -> IntervalLayout:
        return replace(
            self,
            lo=self.lo.to(device),
            hi=self.hi.to(device),
            edge_ids=self._moved_ids(device),
            _moved={self.device: self},
        )


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

    @property
    def num_dst(self) -> int:
        return self.indptr.numel() - 1

    @property
    def num_edges(self) -> int:
        return self.indices.numel()

    @property
    def device(self) -> torch.device:
        return self.indptr.device

    @cached_property
    def in_degrees(self) -> Tensor:
        return self.indptr.diff()

    @cached_property
    def row_starts(self) -> Tensor:
        return self.indptr

    def sources_of(self, rows: Tensor, offsets: Tensor) -> Tensor:
        return self.indices[self.indptr[rows] + offsets]

    def sources(self) -> Tensor:
        return self.indices

    def _copy_to(self, device: torch.device) -> CSRLayout:
        return replace(
            self,
            indptr=self.indptr.to(device),
            indices=self.indices.to(device),
            edge_ids=self._moved_ids(device),
            _moved={self.device: self},
        )


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
    """The layout of an edge list in any order: intervals where they fit, CSR otherwise.

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
