"""Which node halts when, in a benchmark of the recurrence."""

from __future__ import annotations

import torch
from torch import Tensor

# Of the nodes that are active at each step.
FRACTIONS = (1.0, 0.9, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05)
# Halting probability of a node before its last step.
SHARE = 0.01


def depths(nodes: int) -> Tensor:
    """The step at which each node halts, drawn so that the frontiers have the sizes of
    `FRACTIONS`; always the same.

    Examples
    --------
    >>> [int((depths(100) >= step).sum()) for step in range(1, 9)]
    [100, 90, 70, 50, 30, 20, 10, 5]
    """
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(0))
    depth = torch.zeros(nodes, dtype=torch.int64)
    for fraction in FRACTIONS:
        depth[order[: round(fraction * nodes)]] += 1
    return depth


def nobody_halts(nodes: int) -> Tensor:
    """The cap for every node."""
    return torch.full((nodes,), len(FRACTIONS))
