"""Statistics of the graph of one sentence: edges, degrees and diameter."""

from dataclasses import dataclass
from itertools import count

from graphut._torch import Tensor, torch
from graphut.topology.base import Topology
from graphut.topology.parse import parse

LONGEST = 512


@dataclass(frozen=True)
class Statistics:
    """Statistics of the graph of one sentence; its nodes are tokens and extra nodes.

    `diameter` is the largest distance between two tokens, in edges, among the pairs with a path.
    `unreachable` is the first pair `(i, j)` of tokens without a path from `j` to `i`, or `None`.
    """

    tokens: int
    nodes: int
    edges: int
    min_in_degree: int
    max_in_degree: int
    diameter: int
    unreachable: tuple[int, int] | None


def statistics(topology: Topology | str, n: int) -> Statistics:
    """Return statistics of a topology (or spec string) on a sentence of `n` tokens, at most 512.

    Examples
    --------
    >>> statistics("window:2", 9).diameter
    4
    """
    check_tokens(n)
    topology = parse(topology)
    layout = topology.layout([n])
    diameter, reached = _distances(topology.mask(n), n)
    missing = (~reached).nonzero()
    return Statistics(
        tokens=n,
        nodes=layout.num_dst,
        edges=layout.num_edges,
        min_in_degree=int(layout.in_degrees.min()),
        max_in_degree=int(layout.in_degrees.max()),
        diameter=diameter,
        unreachable=(int(missing[0, 0]), int(missing[0, 1])) if len(missing) else None,
    )


def check_tokens(n: int) -> None:
    """Raise `ValueError` unless `statistics` accepts a sentence of `n` tokens."""
    if not 1 <= n <= LONGEST:
        raise ValueError(f"n must be between 1 and {LONGEST} tokens, got {n}")


def _distances(mask: Tensor, n: int) -> tuple[int, Tensor]:
    """Return the diameter, and a bool matrix: whether a path from token `j` leads to token `i`."""
    diameter, edges = 0, mask.float()
    reached = torch.eye(len(mask), dtype=torch.bool)  # over paths of 0 edges, 1 edge, ...
    for step in count(1):
        farther = reached | ((reached.float() @ edges) > 0)
        if torch.equal(farther, reached):
            break
        if not torch.equal(farther[:n, :n], reached[:n, :n]):
            diameter = step
        reached = farther
    return diameter, reached[:n, :n]
