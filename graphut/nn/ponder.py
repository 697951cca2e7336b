"""The record of a recurrence: steps of each node, attention weights, and the work that was done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import NamedTuple

import torch
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.ragged import starts


@dataclass
class FlopCount:
    """The rows and edges that a recurrence computed: what each call was about, in order."""

    # For each projection to keys and values: the number of nodes, and the `(A,)` ids of those that
    # were projected, `None` for all. An id that is not below the number is of no node.
    projections: list[tuple[int, Tensor | None]] = field(default_factory=list)
    # For each attention: its edges, and the `(A,)` ids of its destinations, `None` for all.
    attended: list[tuple[EdgeLayout, Tensor | None]] = field(default_factory=list)
    cross_attended: list[tuple[EdgeLayout, Tensor | None]] = field(default_factory=list)
    # Sums over calls that are no longer in the lists.
    projected: int | Tensor = 0
    computed: int | Tensor = 0
    edges: int | Tensor = 0

    def fold(self) -> None:
        """Empty the lists of one round of a single graph, and keep the number of projected rows."""
        for size, nodes in self.projections:
            self.projected += size if nodes is None else len(nodes)
        self.projections.clear()
        self.attended.clear()

    def add(self, *, computed: Tensor, edges: Tensor) -> None:
        """Add computed nodes and their in-edges that are in no list."""
        self.computed, self.edges = self.computed + computed, self.edges + edges


class WakingRecord(NamedTuple):
    """What an event-driven run did."""

    shown: Tensor  # (N_dst, d) the last shown states, before the output norm
    updates: Tensor  # (N_dst,) how often each node computed
    last_change: Tensor  # (N_dst,) the last round in which its shown state changed, or 0
    rounds: Tensor  # (G,) rounds of each graph with a non-empty frontier
    quiescent: Tensor  # (G,) whether nothing in the graph can change any more
    frontier_sizes: list[int]  # of each round


@dataclass(frozen=True, eq=False, kw_only=True)
class Ponder:
    """The record of one adaptive recurrence: tensors, and sums that are made only when asked.

    Parameters
    ----------
    steps : Tensor
        `(N,)` int64, the step `N_i` at which each node halted; by `EventDriven` the number of times
        that the node computed.
    remainder : Tensor
        `(N,)`, the remainder `R_i`, for rules that have one; else zero.
    cost : Tensor
        Ponder cost, a scalar: the mean over nodes of the rule's cost. By `ACT` this is `N_i + R_i`
        (arXiv 1603.08983, Eq. 12), and `R_i` carries its gradient.
    max_steps : int
        The step at which every node halts.
    work : FlopCount
        The rows and edges that were computed.
    layouts : sequence of EdgeLayout
        Edges of self-attention in each of `max_steps` steps.
    cross_layout : EdgeLayout or None
        Edges of cross-attention.
    node_flops, key_value_flops, edge_flops : int
        Floating-point operations of a step for each computed node, for each projection, and for
        each in-edge of a computed node.
    encoded_flops : int
        Floating-point operations to project the encoder's output, for a decoder.
    attention, cross_attention : AttentionRecord, optional
        The weights of self-attention and of cross-attention in each step, if they were asked for
        with `get_attention=True`; not of sampled blocks.
    halting : Tensor, optional
        With them: `(steps done, N)`, the halting probabilities, NaN where a node had halted. `None`
        without a halting module.
    waking : WakingRecord, optional
        The record of `EventDriven`.

    Examples
    --------
    >>> import torch
    >>> from graphut.nn import AdaptiveRecurrence, ScheduledHalting
    >>> from graphut.nn import MultiHeadAttention, PositionwiseTransition, UniversalTransformerStep
    >>> from graphut.topology import Complete
    >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
    >>> layer = AdaptiveRecurrence(step, ScheduledHalting(torch.tensor([1, 3, 2])), max_steps=4)
    >>> _, ponder = layer(Complete().graph([3]), torch.randn(3, 8))
    >>> ponder.frontier_sizes
    tensor([3, 2, 1, 0])
    >>> ponder.edges, ponder.all_edges
    (tensor(18), tensor(36))
    """

    steps: Tensor
    remainder: Tensor
    cost: Tensor
    max_steps: int
    work: FlopCount
    layouts: Sequence[EdgeLayout]
    cross_layout: EdgeLayout | None = None
    node_flops: int
    key_value_flops: int
    edge_flops: int
    encoded_flops: int = 0
    attention: AttentionRecord | None = None
    cross_attention: AttentionRecord | None = None
    halting: Tensor | None = None
    waking: WakingRecord | None = None

    @property
    def last_change(self) -> Tensor | None:
        """By `EventDriven`: `(N,)` int64, the last round that changed each node; 0 for none."""
        return None if self.waking is None else self.waking.last_change

    @property
    def rounds(self) -> Tensor | None:
        """By `EventDriven`: `(G,)` int64, the rounds of each graph with a non-empty frontier."""
        return None if self.waking is None else self.waking.rounds

    @property
    def quiescent(self) -> Tensor | None:
        """By `EventDriven`: `(G,)` bool, False for graphs that were cut off at the last round."""
        return None if self.waking is None else self.waking.quiescent

    @property
    def shown(self) -> Tensor | None:
        """By `EventDriven`: `(N, d)`, the last shown states, which `resume` continues from."""
        return None if self.waking is None else self.waking.shown

    @property
    def mean_steps(self) -> Tensor:
        """Mean number of steps of a node."""
        return self.steps.double().mean()

    @property
    def frontier_sizes(self) -> Tensor:
        """Number of active nodes, `(max_steps,)`; by `EventDriven` one entry for each round."""
        if self.waking is not None:
            return torch.tensor(self.waking.frontier_sizes, dtype=torch.int64)
        step = torch.arange(1, self.max_steps + 1, device=self.steps.device)
        return (self.steps[:, None] >= step).sum(0)

    @property
    def computed(self) -> Tensor:
        """Number of nodes that were computed, summed over steps."""
        listed = (_count(layout.num_dst, nodes) for layout, nodes in self.work.attended)
        return self._sum([self.work.computed, *listed])

    @property
    def projected(self) -> Tensor:
        """Number of nodes that were projected to keys and values, summed over steps."""
        listed = (_count(size, nodes) for size, nodes in self.work.projections)
        return self._sum([self.work.projected, *listed])

    @property
    def edges(self) -> Tensor:
        """In-edges attended over, those of cross-attention included, summed over steps."""
        attended = [*self.work.attended, *self.work.cross_attended]
        listed = (_count_edges(layout, nodes) for layout, nodes in attended)
        return self._sum([self.work.edges, *listed])

    @property
    def all_edges(self) -> Tensor:
        """In-edges that `max_steps` steps of all nodes would attend over."""
        crossing = 0 if self.cross_layout is None else self.max_steps * self.cross_layout.num_edges
        return self._sum([*(layout.num_edges for layout in self.layouts), crossing])

    @property
    def flops(self) -> Tensor:
        """Floating-point operations done, forward, normalisations and activations left out."""
        return (
            self.edges * self.edge_flops
            + self.computed * self.node_flops
            + self.projected * self.key_value_flops
            + self.encoded_flops
        )

    @property
    def all_flops(self) -> Tensor:
        """Floating-point operations of `max_steps` steps of all nodes."""
        by_node = sum(
            layout.num_dst * self.node_flops + layout.num_src * self.key_value_flops
            for layout in self.layouts
        )
        return self.all_edges * self.edge_flops + by_node + self.encoded_flops

    def __repr__(self) -> str:
        """Return the sizes and means: a graph's layouts would fill pages."""
        return (
            f"Ponder(nodes={len(self.steps)}, mean_steps={float(self.mean_steps):.2f}, "
            f"max_steps={self.max_steps}, cost={float(self.cost):.4g})"
        )

    def _repr_html_(self) -> str:
        """Return the nodes, by number, shaded by their steps: what a notebook shows."""
        steps = self.steps.tolist()
        return steps_html({"steps of nodes": (range(len(steps)), steps)})

    def _sum(self, counts: Iterable[int | Tensor]) -> Tensor:
        total = sum(counts)
        # A number goes into a kernel's arguments, a copy of it would wait for the device.
        return total if isinstance(total, Tensor) else self.steps.new_full((), total)


def _count(size: int, nodes: Tensor | None) -> int | Tensor:
    """Return how many of `nodes` the graph has, or its size for all."""
    return size if nodes is None else (nodes < size).sum()


def _count_edges(layout: EdgeLayout, nodes: Tensor | None) -> int | Tensor:
    """Return how many in-edges `nodes` have, or all nodes."""
    if nodes is None:
        return layout.num_edges
    degrees = layout.in_degrees
    degree_of_node = degrees[nodes.clamp_max(len(degrees) - 1)]
    return torch.where(nodes < len(degrees), degree_of_node, 0).sum()


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """The attention weights of one layer in each step, along the edges that they belong to.

    Parameters
    ----------
    layout : EdgeLayout
        The edges; `layout.in_edges()` names destination, source and id of each.
    weights : sequence of Tensor
        `(E, H)` for each step that was done, by edge id: of each head, the weights of all
        in-edges of a node sum to one, but for dropout in training. They are zero where the step
        did not compute the node.

    Examples
    --------
    >>> from graphut.nn import AdaptiveRecurrence, HaltingUnit
    >>> from graphut.nn import MultiHeadAttention, PositionwiseTransition, UniversalTransformerStep
    >>> from graphut.topology import Causal
    >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
    >>> layer = AdaptiveRecurrence(step, max_steps=3)
    >>> _, ponder, _ = layer(Causal().graph([4, 2]), torch.randn(6, 8), get_attention=True)
    >>> ponder.attention.weights[0].shape
    torch.Size([13, 2])
    >>> ponder.attention.dense(1).shape
    torch.Size([3, 2, 2, 2])
    """

    layout: EdgeLayout
    weights: Sequence[Tensor]

    def dense(self, sentence: int = 0) -> Tensor:
        """Return the weights of one sentence, or graph, of the batch.

        The result is `(steps, heads, destinations, sources)`; it is zero where there is no edge,
        and the sum of parallel edges.

        Raises
        ------
        ValueError
            If the batch has no such sentence.
        """
        layout = self.layout
        if not 0 <= sentence < len(layout.dst_lengths):
            raise ValueError(
                f"there is no sentence {sentence} in a batch of {len(layout.dst_lengths)}, "
                "counted from 0"
            )
        both = layout.dst_lengths, layout.src_lengths
        num_dst, num_src = (int(lengths[sentence]) for lengths in both)
        first_dst, first_src = (int(starts(lengths)[sentence]) for lengths in both)
        rows = torch.arange(first_dst, first_dst + num_dst, device=layout.device)
        row, source, edge = layout.in_edges(rows)
        by_edge = torch.stack([weights[edge] for weights in self.weights])
        table = by_edge.new_zeros(len(by_edge), num_dst * num_src, by_edge.shape[2])
        table = table.index_add(1, row * num_src + source - first_src, by_edge)
        return table.unflatten(1, (num_dst, num_src)).movedim(3, 1)


_MOST = 500  # tokens that are shown of a row
_BLUE = (0, 114, 178)  # that of `graphut.plotting.figure`


def steps_html(rows: Mapping[str, tuple[Sequence[object], Sequence[int]]]) -> str:
    """Return rows of tokens, each shaded by its steps, which stand at its foot.

    A row has a name, tokens and their steps. Whatever is in a token stays text.

    Examples
    --------
    >>> html = steps_html({"output": (["<b>", "c"], [1, 3])})
    >>> "&lt;b&gt;<sub>1</sub>" in html, "c<sub>3</sub>" in html
    (True, True)
    """
    most = max((max(steps, default=1) for _, steps in rows.values()), default=1)
    lines = []
    for name, (tokens, steps) in rows.items():
        pairs = zip(tokens[:_MOST], steps[:_MOST], strict=True)
        cells = " ".join(_cell(str(token), step, most) for token, step in pairs)
        more = f" and {len(steps) - _MOST} more" if len(steps) > _MOST else ""
        lines.append(f"<div><b>{escape(name)}</b> {cells}{more}</div>")
    return "".join(lines)


def _cell(token: str, step: int, most: int) -> str:
    share = 0.6 * step / most  # black letters can be read on it
    red, green, blue = (round(255 - share * (255 - channel)) for channel in _BLUE)
    style = f"background: rgb({red}, {green}, {blue}); color: black; padding: 0 3px"
    return f'<span style="{style}" title="{step} steps">{escape(token)}<sub>{step}</sub></span>'
