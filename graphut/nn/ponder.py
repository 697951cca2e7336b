"""The record of a recurrence: steps of each node, ponder cost, operations and attention weights."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.ragged import starts

# The mark of the number of steps of a node that the limit stopped, and its meaning.
STOPPED, STOPPED_MEANING = "+", "stopped by the limit on the number of steps"


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """The edges of one attention layer, and their weights in each step of a recurrence.

    Examples
    --------
    >>> from graphut.nn import AdaptiveRecurrence
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

    layout: EdgeLayout  #: `layout.in_edges()` returns destination, source and id of each edge
    #: `(E, H)` for each step, by edge id: zero for edges into nodes that the step did not compute
    weights: Sequence[Tensor]

    def dense(self, sentence: int = 0) -> Tensor:
        """Return the weights inside one graph of the batch, such as a sentence, as a dense tensor.

        The result is `(steps, heads, destinations, sources)`. Weights of parallel edges are added;
        pairs of nodes without an edge have weight zero. `sentence` is the index of the graph in the
        batch. Raise `ValueError` if there is no graph with this index.
        """
        layout = self.layout
        if not 0 <= sentence < len(layout.dst_lengths):
            raise ValueError(
                f"there is no graph {sentence} (from 0) in a batch of {len(layout.dst_lengths)}"
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


@dataclass
class FlopCount:
    """Counts of projected and of computed nodes, and what their in-edges are counted from."""

    projected: int | Tensor = 0  # how often a node was projected to keys and values
    computed: int | Tensor = 0  # how often a step computed a node
    edges: int | Tensor = 0  # in-edges of computed nodes, without those in `attended`
    # The edges of an attention, and the `(A,)` ids of the destinations that it computed.
    attended: list[tuple[EdgeLayout, Tensor | None]] = field(default_factory=list)


@dataclass(frozen=True, eq=False, kw_only=True)
class Ponder:
    """The record of a call of `AdaptiveRecurrence`: steps, ponder cost and operation counts.

    Examples
    --------
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

    #: `(N,)` int64, the step at which each node halted, :math:`N_i`; with `EventDriven`, how often
    #: it computed
    steps: Tensor
    remainder: Tensor  #: `(N,)`, the remainder :math:`R_i`; zero for rules without one
    #: Ponder cost, a scalar: the mean over nodes of the rule's cost. With `ACT` this is the mean of
    #: :math:`N_i + R_i` (arXiv 1603.08983, Eq. 12); only :math:`R_i` has a gradient.
    cost: Tensor
    max_steps: int  #: the largest number of steps; with `EventDriven`, the number of rounds
    work: FlopCount  #: the nodes and edges that were computed
    layout: EdgeLayout  #: edges of self-attention
    cross_layout: EdgeLayout | None = None  #: edges of cross-attention
    node_flops: int  #: floating-point operations for a computed node
    key_value_flops: int  #: for a projection to keys and values
    edge_flops: int  #: for an in-edge of a computed node
    encoded_flops: int = 0  #: for all projections of the encoder's output
    #: with `get_attention=True`: the weights of each step
    attention: AttentionRecord | None = None
    cross_attention: AttentionRecord | None = None
    #: with `get_attention=True` and a halting module: `(steps taken, N)` halting probabilities, NaN
    #: for nodes that have halted
    halting: Tensor | None = None
    #: like `halting`: `(N,)` bool, nodes that the limit on the number of steps stopped
    stopped: Tensor | None = None
    # With `EventDriven`:
    shown: Tensor | None = None  #: `(N, d)`, the last shown states, from which `resume` continues
    #: `(A,)` int64, sorted ids of the nodes that the next round would have computed; none at rest
    awake: Tensor | None = None
    last_change: Tensor | None = None  #: `(N,)` int64, the last round that changed a node, or 0
    rounds: Tensor | None = None  #: `(G,)` int64, rounds of a graph with a non-empty frontier
    quiescent: Tensor | None = None  #: `(G,)` bool, False for graphs cut off at the last round
    round_sizes: Sequence[int] | None = None  #: number of active nodes in each round
    #: with `get_attention` or `get_steps`: ids of the active nodes in each round
    frontiers: Sequence[Tensor] | None = None

    @property
    def mean_steps(self) -> Tensor:
        """Mean number of steps of a node."""
        return self.steps.double().mean()

    @property
    def num_cut_off(self) -> int:
        """Number of graphs that `EventDriven` cut off while nodes were still awake."""
        return 0 if self.quiescent is None else int((~self.quiescent).sum())

    @property
    def frontier_sizes(self) -> Tensor:
        """Number of active nodes in each step, `(max_steps,)`, or each round of `EventDriven`."""
        if self.round_sizes is not None:
            return torch.tensor(self.round_sizes, dtype=torch.int64)
        step = torch.arange(1, self.max_steps + 1, device=self.steps.device)
        return (self.steps[:, None] >= step).sum(0)

    @property
    def computed(self) -> Tensor:
        """Number of nodes that a step computed, summed over all steps."""
        return self._tensor(self.work.computed)

    @property
    def projected(self) -> Tensor:
        """Number of nodes that were projected to keys and values, summed over steps."""
        return self._tensor(self.work.projected)

    @property
    def edges(self) -> Tensor:
        """Number of in-edges of computed nodes, including cross-attention, summed over steps."""
        edges = self.work.edges
        for layout, nodes in self.work.attended:
            own = layout.num_edges if nodes is None else layout.in_degrees[nodes].sum()
            edges = edges + own
        return self._tensor(edges)

    @property
    def all_edges(self) -> Tensor:
        """Value that `edges` would have if all nodes took `max_steps` steps."""
        crossing = 0 if self.cross_layout is None else self.cross_layout.num_edges
        return self._tensor(self.max_steps * (self.layout.num_edges + crossing))

    @property
    def flops(self) -> Tensor:
        """Floating-point operations of the forward pass, without normalisations and activations."""
        return (
            self.edges * self.edge_flops
            + self.computed * self.node_flops
            + self.projected * self.key_value_flops
            + self.encoded_flops
        )

    @property
    def all_flops(self) -> Tensor:
        """Value that `flops` would have if all nodes took `max_steps` steps."""
        layout = self.layout
        by_step = layout.num_dst * self.node_flops + layout.num_src * self.key_value_flops
        return self.all_edges * self.edge_flops + self.max_steps * by_step + self.encoded_flops

    def __repr__(self) -> str:
        cut = "" if not self.num_cut_off else f", num_cut_off={self.num_cut_off}"
        return (
            f"Ponder(nodes={len(self.steps)}, mean_steps={float(self.mean_steps):.2f}, "
            f"max_steps={self.max_steps}, cost={self.cost.item():.4g}{cut})"
        )

    def _tensor(self, count: int | Tensor) -> Tensor:
        # `torch.tensor(count, device=...)` would wait for the device.
        return count if isinstance(count, Tensor) else self.steps.new_full((), count)
