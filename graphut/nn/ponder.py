"""How long each node pondered, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class Ponder:
    """The record of one adaptive recurrence: tensors, read only when asked.

    Parameters
    ----------
    steps : Tensor
        `(N,)` int64, the step `N_i` at which each node halted.
    remainder : Tensor
        `(N,)`, the remainder `R_i`; carries the gradient of the cost.
    cost : Tensor
        Ponder cost, a scalar: the mean over nodes of `N_i + R_i` (arXiv 1603.08983, Eq. 12).
    computed : Tensor
        `(N,)` int64, the steps for which each node was computed.
    projected : Tensor
        `(N,)` int64, how often each node's keys and values were made.
    in_degrees : Tensor
        `(N,)` int64, in-edges of each node, those of cross-attention included.
    max_steps : int
        The cap.
    node_flops, memory_flops, edge_flops : int
        Floating-point operations of a step for each computed node, for each projection, and for
        each in-edge of a computed node.
    encoded_flops : int
        Floating-point operations to project the encoder's output, for a decoder.

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
    computed: Tensor
    projected: Tensor
    in_degrees: Tensor
    max_steps: int
    node_flops: int
    memory_flops: int
    edge_flops: int
    encoded_flops: int = 0

    @property
    def mean_steps(self) -> Tensor:
        """Mean number of steps of a node."""
        return self.steps.double().mean()

    @property
    def frontier_sizes(self) -> Tensor:
        """`(max_steps,)`, how many nodes are active at each step."""
        step = torch.arange(1, self.max_steps + 1, device=self.steps.device)
        return (self.steps[:, None] >= step).sum(0)

    @property
    def edges(self) -> Tensor:
        """In-edges attended over, summed over steps."""
        return (self.in_degrees * self.computed).sum()

    @property
    def all_edges(self) -> Tensor:
        """In-edges that `max_steps` steps of all nodes would attend over."""
        return self.in_degrees.sum() * self.max_steps

    @property
    def flops(self) -> Tensor:
        """Floating-point operations done, forward, normalisations and activations left out."""
        return (
            self.edges * self.edge_flops
            + self.computed.sum() * self.node_flops
            + self.projected.sum() * self.memory_flops
            + self.encoded_flops
        )

    @property
    def all_flops(self) -> Tensor:
        """Floating-point operations of `max_steps` steps of all nodes."""
        node_steps = self.steps.numel() * self.max_steps
        by_node = self.node_flops + self.memory_flops
        return self.all_edges * self.edge_flops + node_steps * by_node + self.encoded_flops
