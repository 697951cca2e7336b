"""Keys and values of a graph whose number of active nodes only the device knows."""

from __future__ import annotations

import torch
from torch import Tensor

from graphut.nn.context import GraphContext
from graphut.nn.transition import PositionwiseTransition, Transition


class DeviceContext(GraphContext):
    """A `GraphContext` for a frontier that ends with rows of no node, as in `DeviceRows`.

    These rows have the id `N_src`. The table of keys and values has a row for them, which no edge
    names. Layers with hooks, sampled blocks, edge biases and edge features are not supported.
    """

    def _table(self) -> Tensor:
        assert self.key_value is not None
        return self.key_value[: self.num_src]

    def feed_forward(self, transition: Transition, rows: Tensor) -> Tensor:
        """Return the transition of packed rows; it may read neighbouring tokens."""
        if isinstance(transition, PositionwiseTransition):
            return transition(self.layout, rows)
        assert self.frontier is not None
        if self.combined is None:
            self.combined = rows.new_zeros(self.num_dst + 1, rows.shape[1])
        self.combined = self.combined.index_copy(0, self.frontier, rows)
        nodes = existing(self.frontier, self.num_dst)
        return transition(self.layout, self.combined[: self.num_dst], frontier=nodes)


def existing(nodes: Tensor, size: int) -> Tensor:
    """Map ids of no node to valid ids below `size`, spread out to avoid contention.

    Examples
    --------
    >>> existing(torch.tensor([2, 4, 9, 9]), 5)
    tensor([2, 4, 2, 3])
    """
    return torch.where(nodes < size, nodes, torch.arange(len(nodes), device=nodes.device))
