"""A topology: who attends to whom in a sentence, as a small frozen value."""

from __future__ import annotations

import re
from abc import ABC
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, final

import torch
from torch import Tensor

from graphut._dgl import DGLGraph
from graphut.attention.layout import EdgeLayout, IntervalLayout, layout_from_edges
from graphut.topology.batch import Lengths, as_lengths, positions, starts
from graphut.topology.build import graph_from_layouts

if TYPE_CHECKING:
    from graphut.topology.algebra import Intersection, Union

registry: dict[str, type[Topology]] = {}


@dataclass(frozen=True)
class Topology(ABC):
    """Which sources each destination of a sentence attends to.

    A subclass is a frozen dataclass with a `name`, whose fields, if any, are integers,
    and with one of the two methods `interval` and `in_edges`. From it come the DGL graph,
    the dense mask, the layout that kernels run, and the spec string both ways.

    Attributes
    ----------
    name : str
        What the topology is called in spec strings.
    stable : bool
        Whether the edges among a sentence's first `n` tokens stay as they are when it
        grows: `mask(n)` is the corner of `mask(n + 1)` for every `n`. What a cached decode
        may rely on; `False` unless the class says otherwise.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from graphut import topology
    >>> @dataclass(frozen=True)
    ... class Previous(topology.Topology):
    ...     name = "previous"
    ...     stable = True
    ...     steps: int
    ...     def in_edges(self, dst, n_dst, n_src):
    ...         return torch.arange(len(dst)), dst - self.steps
    >>> topology.parse("previous:1 | window:0").mask(3).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    """

    name: ClassVar[str]

    def __init_subclass__(cls, named: bool = True) -> None:
        super().__init_subclass__()
        if named:
            _register(cls)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int:
                raise TypeError(f"{self.name}: {field.name} must be an integer, got {value!r}")

    @property
    def stable(self) -> bool:
        return False

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor] | None:
        """The one run of sources that each destination attends to, where there is one.

        Parameters
        ----------
        dst : Tensor
            `(D,)` int64, positions of destinations in their sentences, from 0. They may be
            of many sentences.
        n_dst, n_src : Tensor
            `(D,)` int64, the number of destinations and of sources of each one's sentence.

        Returns
        -------
        tuple of Tensor, or None
            `(lo, hi)`, each `(D,)`: the positions `lo, ..., hi - 1`; those outside the
            sentence are dropped. `None` where sources are not contiguous.
        """
        return None

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """The sources that each destination attends to; arguments as for `interval`.

        Returns
        -------
        tuple of Tensor
            `(row, source)`, one entry an edge in any order: the index into `dst`, and the
            source's position in the sentence. Positions outside the sentence and edges that
            occur before are dropped.
        """
        run = self.clipped_interval(dst, n_dst, n_src)
        assert run is not None  # by _register, a class without it has its own in_edges
        lo, hi = run
        row = torch.repeat_interleave(hi - lo)
        return row, positions(hi - lo) + lo[row]

    @final
    def clipped_interval(
        self, dst: Tensor, n_dst: Tensor, n_src: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """`interval` within the sentence: `0 <= lo <= hi <= n_src`."""
        run = self.interval(dst, n_dst, n_src)
        if run is None:
            return None
        lo = run[0].clamp(min=0).minimum(n_src)
        return lo, run[1].maximum(lo).minimum(n_src)

    @final
    def sorted_in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """`in_edges` within the sentence, each once, by row and then by source."""
        row, source = self.in_edges(dst, n_dst, n_src)
        inside = (source >= 0) & (source < n_src[row])
        width = int(n_src.max())
        edge = torch.unique(row[inside] * width + source[inside])
        return edge // width, edge % width

    @final
    def layout(self, lengths: Lengths, src_lengths: Lengths | None = None) -> EdgeLayout:
        """The edges of a batch of sentences as kernels read them; no graph is built.

        Parameters
        ----------
        lengths : sequence of int or Tensor
            Tokens of each sentence.
        src_lengths : sequence of int or Tensor, optional
            For a cross graph: tokens of each source sentence, where `lengths` are those
            of the destination sentences.

        Raises
        ------
        TypeError, ValueError
            If the batch is empty, a length is not a positive integer, or the two differ
            in number.

        Examples
        --------
        >>> from graphut.topology import Causal
        >>> Causal().layout([2, 3]).hi
        tensor([1, 2, 3, 4, 5])
        """
        dst_lengths = as_lengths(lengths)
        sources = dst_lengths if src_lengths is None else as_lengths(src_lengths, "src_lengths")
        if len(sources) != len(dst_lengths):
            raise ValueError(
                f"{len(dst_lengths)} lengths but {len(sources)} src_lengths: "
                "a cross graph joins pairs of sentences"
            )
        dst = positions(dst_lengths)
        n_dst = torch.repeat_interleave(dst_lengths, dst_lengths)
        n_src = torch.repeat_interleave(sources, dst_lengths)
        first = torch.repeat_interleave(starts(sources), dst_lengths)
        num_src = int(sources.sum())
        run = self.clipped_interval(dst, n_dst, n_src)
        if run is not None:
            return IntervalLayout(
                lo=run[0] + first,
                hi=run[1] + first,
                num_src=num_src,
                dst_lengths=dst_lengths,
                src_lengths=sources,
            )
        row, source = self.sorted_in_edges(dst, n_dst, n_src)
        return layout_from_edges(
            source + first[row],
            row,
            num_src=num_src,
            num_dst=dst.numel(),
            dst_lengths=dst_lengths,
            src_lengths=sources,
        )

    @final
    def graph(self, lengths: Lengths, src_lengths: Lengths | None = None) -> DGLGraph:
        """One batched DGL graph of sentences; arguments and errors as for `layout`.

        Returns
        -------
        DGLGraph
            Homogeneous without `src_lengths`; with them bipartite, its edge type
            `('source', 'attends', 'target')`. Edges are by destination, then by source.

        Examples
        --------
        >>> from graphut.topology import Window
        >>> graph = Window(1).graph([3, 2])
        >>> graph.batch_num_edges()
        tensor([7, 4])
        """
        homogeneous = ("_N", "_E", "_N")  # DGL's own names
        etype = homogeneous if src_lengths is None else ("source", "attends", "target")
        return graph_from_layouts({etype: self.layout(lengths, src_lengths)})

    @final
    def mask(self, n_dst: int, n_src: int | None = None) -> Tensor:
        """The edges of one sentence as a dense matrix.

        Parameters
        ----------
        n_dst : int
            Number of destinations.
        n_src : int, optional
            Number of sources; as many if not given.

        Returns
        -------
        Tensor
            `(n_dst, n_src)` bool; rows are destinations.

        Examples
        --------
        >>> from graphut.topology import Causal
        >>> Causal().mask(2)
        tensor([[ True, False],
                [ True,  True]])
        """
        n_src = n_dst if n_src is None else n_src
        row, source, _ = self.layout([n_dst], [n_src]).in_edges()
        mask = torch.zeros(n_dst, n_src, dtype=torch.bool)
        mask[row, source] = True
        return mask

    @final
    def is_causal(self, n: int = 64) -> bool:
        """Whether no destination sees a later source, at the lengths 1 to `n`.

        Examples
        --------
        >>> from graphut.topology import Causal, Complete
        >>> Complete().is_causal(), (Complete() & Causal()).is_causal()
        (False, True)
        """
        return _is_causal(self, n)

    def spec(self) -> str:
        """The topology as `topology.parse` reads it.

        Examples
        --------
        >>> from graphut.topology import Causal, Window
        >>> (Window(8) | Causal()).spec()
        'window:8|causal'
        """
        values = ",".join(str(getattr(self, field.name)) for field in fields(self))
        return f"{self.name}:{values}" if values else self.name

    @final
    def __str__(self) -> str:
        return self.spec()

    # The algebra is made of topologies, so it can be imported only when this file is done.

    @final
    def __or__(self, other: Topology) -> Union:
        from graphut.topology.algebra import Union

        return Union(self, other) if isinstance(other, Topology) else NotImplemented

    @final
    def __and__(self, other: Topology) -> Intersection:
        from graphut.topology.algebra import Intersection

        return Intersection(self, other) if isinstance(other, Topology) else NotImplemented


def sees_future(layout: EdgeLayout) -> bool:
    """Whether some destination of a self-attention layout sees a later source."""
    if isinstance(layout, IntervalLayout):
        last = layout.hi - 1
        return bool(((last > torch.arange(layout.num_dst)) & (last >= layout.lo)).any())
    row, source, _ = layout.in_edges()
    return bool((source > row).any())


@lru_cache(maxsize=256)
def _is_causal(topology: Topology, n: int) -> bool:
    return not sees_future(topology.layout(range(1, n + 1)))


def _register(cls: type[Topology]) -> None:
    if cls.interval is Topology.interval and cls.in_edges is Topology.in_edges:
        raise TypeError(f"{cls.__name__} must define interval() or in_edges()")
    name = cls.__dict__.get("name")
    if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise TypeError(
            f"{cls.__name__}.name is {name!r}: a topology needs its own name for spec strings, "
            'of lower-case letters, digits and underscores, such as name = "window"'
        )
    known = registry.get(name)
    # The same class may be defined again, as in a notebook's cell.
    if known and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise TypeError(
            f"{cls.__name__}.name is {name!r}, which {known.__module__}.{known.__qualname__} "
            "has taken: choose another"
        )
    registry[name] = cls
