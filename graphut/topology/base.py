"""Base class of topologies, which define the nodes that each node of a sentence attends to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from inspect import get_annotations
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, final

from graphut._dgl import DGLGraph
from graphut._torch import Tensor, torch
from graphut.attention.ragged import positions, ragged_arange, starts
from graphut.topology.batch import (
    Interval,
    Lengths,
    as_lengths,
    graph_from_layouts,
    sees_future,
)
from graphut.topology.registry import find, operators, register

if TYPE_CHECKING:
    from graphut.attention import EdgeLayout


LONGEST = 4096  # tokens of the longest sentence that `is_causal` checks


@dataclass(frozen=True)
class Topology:
    """Base class of topologies: the sources that each destination of a sentence attends to.

    A subclass is a frozen dataclass with a `name` for spec strings (such as "window" in `window:8`)
    and one of the methods `interval` and `in_edges`. The base class derives the DGL graph, the
    dense mask, the layout for the kernels, and the spec string. Fields are integers, and the last
    one may be a `seed`; or the only field is a tuple of integers that `__init__` takes as separate
    arguments. The keyword `minimum` of the class statement sets minimum values of fields.

    The nodes of a sentence are its tokens, followed by its *extra nodes*: relays, virtual nodes or
    spans. A topology with extra nodes defines `extra_nodes`, and also `extra_spans` if an extra
    node represents only some of the tokens.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from graphut import topology
    >>> @dataclass(frozen=True)
    ... class Previous(topology.Topology, minimum={"steps": 1}):
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
    #: whether the topology has nodes that are not tokens, such as relays or virtual nodes
    has_extra_nodes: ClassVar[bool] = False
    # Whether it is causal whatever its edges are, so that `is_causal` need not list them.
    _known_causal: ClassVar[bool] = False
    _minimum: ClassVar[Mapping[str, int]] = {}

    def __init_subclass__(
        cls, *, named: bool = True, minimum: Mapping[str, int] | None = None
    ) -> None:
        """Check that a subclass defines its edges, and register its name for spec strings."""
        super().__init_subclass__()
        cls._minimum = cls._minimum if minimum is None else minimum
        cls.has_extra_nodes = cls.extra_nodes is not Topology.extra_nodes
        cls._known_causal = vars(cls).get("_known_causal", False)  # not of a subclass
        # Edges defined in this class take precedence over an inherited interval.
        if "in_edges" in cls.__dict__ and "interval" not in cls.__dict__:
            cls.interval = Topology.interval  # type: ignore[method-assign]
        if "__init__" in vars(cls) and not (get_annotations(cls) or fields(cls)):
            raise TypeError(
                f"{cls.__name__}: write @dataclass(frozen=True), and fields, not __init__"
            )
        if not named:
            return
        if cls.interval is Topology.interval and cls.in_edges is Topology.in_edges:
            raise TypeError(f"{cls.__name__} must define interval() or in_edges()")
        register(cls.__dict__.get("name"), cls)

    def __post_init__(self) -> None:
        """Check that fields are integers, and at least their minimum."""
        for field in fields(self):
            value = getattr(self, field.name)
            several = isinstance(value, tuple) and "tuple" in str(field.type)
            numbers = [*value] if several else [value]
            for place, number in enumerate(numbers):
                if isinstance(number, bool) or not isinstance(number, Integral):
                    raise TypeError(f"{self.name}: {field.name} must be an integer, got {number!r}")
                numbers[place] = int(number)  # also converts integers of numpy
            object.__setattr__(self, field.name, tuple(numbers) if several else numbers[0])
        for name, least in self._minimum.items():
            value = getattr(self, name)
            if value < least:
                must = "not be negative" if least == 0 else f"be at least {least}"
                raise ValueError(f"{self.name}: {name} must {must}, got {value}")

    def spec(self) -> str:
        """Return the spec string, the input of `topology.parse`.

        Examples
        --------
        >>> from graphut.topology import Causal, Random, Window
        >>> (Window(8) & Causal() | Random(2, seed=7)).spec()
        'window:8&causal|random:2@7'
        """
        numbers = {field.name: getattr(self, field.name) for field in fields(self)}
        seed = f"@{numbers.pop('seed')}" if "seed" in numbers else ""
        tuples = [value if isinstance(value, tuple) else (value,) for value in numbers.values()]
        values = ",".join(str(value) for several in tuples for value in several)
        return self.name + ":" * bool(values) + values + seed

    @final
    def __str__(self) -> str:
        """Return `spec()`."""
        return self.spec()

    @property
    def stable(self) -> bool:
        """True if appended tokens change no edge of earlier ones, as cached decoding requires."""
        return False

    @property
    def stable_past(self) -> bool:
        """True if in `self.causal()` appended tokens never change the in-edges of earlier ones."""
        return self.stable

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Interval | None:
        """Return the interval of sources of each destination, or None if they are not contiguous.

        `dst`, `(D,)` int64, has the position of each destination in its sentence, from 0. In a
        sentence of `n` tokens, `n + k` is extra node `k`. `n_dst` and `n_src`, `(D,)` int64, are
        the numbers of tokens in the destination and source sentence of each destination, which
        differ in cross-attention. The result is `(lo, hi)`, each `(D,)`, for the sources `lo, ...,
        hi - 1`. Positions outside the sentence are dropped.
        """
        return None

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges into each destination; the arguments are those of `interval`.

        The result is `(row, source)`, with one entry per edge in any order: the index into `dst`,
        and the position of the source in its sentence. Positions outside the sentence and repeated
        edges are dropped.
        """
        return self.sorted_in_edges(dst, n_dst, n_src)

    def extra_nodes(self, n: Tensor) -> Tensor:
        """Return the number of nodes that are not tokens, given `n` tokens; the default is 0."""
        return torch.zeros_like(n)

    def extra_spans(self, extra: Tensor, n: Tensor) -> Interval:
        """Return the interval of tokens that each extra node represents.

        `extra`, `(K,)` int64, is the index of each extra node in its sentence, from 0, and `n`,
        `(K,)` int64, the number of tokens of that sentence. The result, `(lo, hi)`, is the tokens
        `lo, ..., hi - 1`; the default is all tokens. An intersection with a topology without extra
        nodes treats an extra node as the last of these tokens: in `causal()`, only this token and
        later ones attend to the extra node.
        """
        return torch.zeros_like(n), n

    def extra_starts(self, extra: Tensor, n: Tensor) -> Interval:
        """Return the interval of tokens whose mean is the first state of each extra node.

        The first state is zero if the interval is empty. Arguments and result have the format of
        `extra_spans`, whose result is the default.
        """
        return self.extra_spans(extra, n)

    @final
    def num_nodes(self, n: int) -> int:
        """Return the number of nodes in a sentence of `n` tokens, including extra nodes."""
        return n + int(self.extra_nodes(as_lengths([n])))

    @final
    def num_edges(self, n: int) -> int:
        """Return the number of edges in a sentence of `n` tokens."""
        return self.layout([n]).num_edges

    @final
    def clipped_interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Interval | None:
        """Return `interval(...)`, if any, clipped to the nodes of the sentence, with `lo <= hi`."""
        interval = self.interval(dst, n_dst, n_src)
        if interval is None:
            return None
        end = n_src + self.extra_nodes(n_src)
        lo = interval[0].clamp(min=0).minimum(end)
        return lo, interval[1].maximum(lo).minimum(end)

    @final
    def sorted_in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return edges inside the sentence as `(row, source)`, sorted, unique; see `in_edges`."""
        width = int((n_src + self.extra_nodes(n_src)).max())
        keys = self._edge_keys(dst, n_dst, n_src, width)
        return keys // width, keys % width

    @final
    def _edge_keys(self, dst: Tensor, n_dst: Tensor, n_src: Tensor, width: int) -> Tensor:
        """Return the sorted keys `row * width + source` of the edges of `sorted_in_edges`."""
        interval = self.clipped_interval(dst, n_dst, n_src)
        if interval is None:
            return self._ragged_keys(dst, n_dst, n_src, width)
        row, position = ragged_arange(interval[1] - interval[0])
        return position + (torch.arange(len(dst)) * width + interval[0])[row]

    def _ragged_keys(self, dst: Tensor, n_dst: Tensor, n_src: Tensor, width: int) -> Tensor:
        """Compute `_edge_keys` from `in_edges`; unions and intersections override this method."""
        from graphut.attention.checks import check_index

        found: Any = self.in_edges(dst, n_dst, n_src)
        if not isinstance(found, tuple) or len(found) != 2:
            raise TypeError(
                f"{self.name}: in_edges must return the pair (row, source), got {found}"
            )
        row, source = found
        for name, index in (("row", row), ("source", source)):
            check_index(f"{self.name}: {name} of in_edges", index)
        if row.shape != source.shape or bool(((row < 0) | (row >= len(dst))).any()):
            raise ValueError(
                f"{self.name}: in_edges must return (row, source) of equal length, row an index "
                f"into the {len(dst)} entries of dst; got {row} and {source}; are they exchanged?"
            )
        inside = (source >= 0) & (source < (n_src + self.extra_nodes(n_src))[row])
        keys = (row * width + source)[inside]
        return keys if bool((keys[1:] > keys[:-1]).all()) else torch.unique(keys)

    @final
    def layout_of_rows(
        self, dst: Tensor, n_dst: Tensor, n_src: Tensor, first: Tensor, **batch: Any
    ) -> EdgeLayout:
        """Return a layout with the destinations `dst`; `batch` are its remaining arguments.

        The first three arguments are the same as in `interval`. `first`, `(D,)`, is the node id of
        the first source in the source sentence of each destination.
        """
        from graphut.attention.layout import IntervalLayout, layout_from_edges

        interval = self.clipped_interval(dst, n_dst, n_src)
        if interval is not None:
            return IntervalLayout(lo=interval[0] + first, hi=interval[1] + first, **batch)
        row, source = self.sorted_in_edges(dst, n_dst, n_src)
        return layout_from_edges(source + first[row], row, num_dst=len(dst), **batch)

    @final
    def layout(self, lengths: Lengths) -> EdgeLayout:
        """Return the edge layout of a batch of sentences, without building a graph.

        `lengths` are the numbers of tokens of the sentences. In the layout, the tokens of each
        sentence come before its extra nodes.

        Examples
        --------
        >>> from graphut.topology import Causal
        >>> Causal().layout([2, 3]).hi
        tensor([1, 2, 3, 4, 5])
        """
        tokens = as_lengths(lengths)
        nodes = tokens + self.extra_nodes(tokens)
        sentence = torch.repeat_interleave(nodes)
        return self.layout_of_rows(
            positions(nodes),
            tokens[sentence],
            tokens[sentence],
            starts(nodes)[sentence],
            num_src=int(nodes.sum()),
            dst_lengths=nodes,
            src_lengths=nodes,
            extra_nodes=self.has_extra_nodes,
        )

    @final
    def graph(self, lengths: Lengths) -> DGLGraph:
        """Return the batched, homogeneous DGL graph of sentences; see `layout`.

        Edges are sorted by destination and source.

        Examples
        --------
        >>> from graphut.topology import Window
        >>> graph = Window(1).graph([3, 2])
        >>> graph.batch_num_edges()
        tensor([7, 4])
        """
        return graph_from_layouts({("_N", "_E", "_N"): self.layout(lengths)})  # names of DGL

    @final
    def mask(self, n: int) -> Tensor:
        """Return the attention mask of one sentence: rows are destinations, columns are sources.

        Its shape is `(N, N)` for a sentence of `n` tokens, with `N` nodes including extra nodes.

        Examples
        --------
        >>> from graphut.topology import Causal
        >>> Causal().mask(2)
        tensor([[ True, False],
                [ True,  True]])
        """
        layout = self.layout([n])
        row, source, _ = layout.in_edges()
        mask = torch.zeros(layout.num_dst, layout.num_src, dtype=torch.bool)
        mask[row, source] = True
        return mask

    @final
    @lru_cache(maxsize=256)  # noqa: B019  (topologies are small)
    def is_causal(self, n: int = 64) -> bool:
        """Return True if no information from a later token can reach an earlier one.

        Information travels along edges, through extra nodes and through their first states. The
        test covers sentences of 1 to `n` tokens, and one whose length is the largest integer in the
        spec (except for seeds) plus 2, but at most 4096. This suffices for the topologies of this
        package with integers below 4095, but not for every intersection of them.

        Examples
        --------
        >>> from graphut.topology import Causal, Complete, Global
        >>> Complete().is_causal(), (Complete() & Causal()).is_causal(), Global(99).is_causal()
        (False, True, False)
        """
        if self._known_causal:
            return True
        numbers = re.findall("[:,]-?([0-9]+)", self.spec())
        beyond = min(max(map(int, numbers), default=0) + 2, LONGEST)
        lengths = as_lengths([*range(1, n + 1), beyond])
        return not sees_future(self.layout(lengths), lengths, self.extra_starts)

    @final
    def causal(self) -> Topology:
        """Return `self & Causal()`, the topology without edges from later tokens.

        Examples
        --------
        >>> from graphut.topology import Window
        >>> str(Window(8).causal())
        'window:8&causal'
        """
        return self & find("causal")()

    @final
    def __or__(self, other: Topology) -> Topology:
        """Return the union of the edges of both topologies."""
        return operators["|"](self, other)

    @final
    def __bool__(self) -> bool:
        raise TypeError(
            f"the topology {self} is neither true nor false: combine topologies with & and |, not "
            "with `and` and `or`, and compare an optional one with `is None`"
        )

    @final
    def __and__(self, other: Topology) -> Topology:
        """Return the intersection of the edges of both topologies."""
        return operators["&"](self, other)
