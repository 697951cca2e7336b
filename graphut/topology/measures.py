"""Statistics of the graph of one sentence: edges, degrees and diameter."""

from dataclasses import dataclass

from graphut._torch import torch
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
    from scipy.sparse.csgraph import shortest_path

    topology = parse(topology)
    mask = topology.mask(n)
    if topology.layout([n, n]).num_edges != 2 * int(mask.sum()):
        raise ValueError(f"{topology}: a row of in_edges is an index into dst, not a position")
    degrees = mask.sum(1)
    distances = torch.from_numpy(shortest_path(mask.numpy(), unweighted=True))[:n, :n]
    missing = distances.isinf().nonzero()
    return Statistics(
        tokens=n,
        nodes=len(mask),
        edges=int(degrees.sum()),
        min_in_degree=int(degrees.min()),
        max_in_degree=int(degrees.max()),
        diameter=int(distances[distances.isfinite()].max()),
        unreachable=(int(missing[0, 0]), int(missing[0, 1])) if len(missing) else None,
    )


def check_tokens(n: int) -> None:
    """Raise `ValueError` unless `statistics` accepts a sentence of `n` tokens."""
    if not 1 <= n <= LONGEST:
        raise ValueError(f"n must be between 1 and {LONGEST} tokens, got {n}")
