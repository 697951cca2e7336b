import pytest
import torch
from hypothesis import given

from graphut.topology import Topology, batch, parse
from tests.topology import brute


def sees_future(topology: Topology, n: int) -> bool:
    return batch.sees_future(topology.layout([n]), torch.tensor([n]), topology.extra_starts)


def hears_of_later(topology: Topology, n: int) -> bool:
    """By following every path from a token through extra nodes to a token."""
    mask = topology.mask(n)
    nodes = len(mask)
    lo, hi = topology.extra_starts(torch.arange(nodes - n), torch.full((nodes - n,), n))
    into = [set(mask[i].nonzero()[:, 0].tolist()) for i in range(nodes)]
    for extra, (first, end) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True), start=n):
        into[extra] |= set(range(first, end))
    for _ in range(nodes):
        for extra in range(n, nodes):
            into[extra] |= {far for near in into[extra] if near >= n for far in into[near]}
    tokens = [into[i].union(*(into[e] for e in into[i] if e >= n)) for i in range(n)]
    return any(i < j < n for i in range(n) for j in tokens[i])


@given(brute.topologies | brute.with_extra_nodes, brute.lengths)
def test_sees_future_counts_all_paths_through_extra_nodes(topology: Topology, n: int) -> None:
    assert sees_future(topology, n) is hears_of_later(topology, n)
    assert topology.is_causal(8) is not any(hears_of_later(topology, n) for n in range(1, 9))
    assert not sees_future(topology.causal(), n)


@pytest.mark.parametrize(
    "spec", ["global:100", "dilated:1,99", "patch:200,1", "edges:100,0", f"window:{10**17}"]
)
def test_is_causal_finds_a_future_of_long_sentences_only(spec: str) -> None:
    assert not parse(spec).is_causal()
