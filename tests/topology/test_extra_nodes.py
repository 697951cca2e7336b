import pytest
import torch
from hypothesis import given

from graphut.topology import (
    Complete,
    Star,
    Topology,
    node_positions,
    parse,
    token_nodes,
    with_extra_nodes,
)
from tests.helpers import assert_same, gradients, normal
from tests.topology import brute


@given(brute.with_extra_nodes, brute.batches)
def test_with_extra_nodes_starts_as_means_of_tokens(topology: Topology, lengths: list[int]) -> None:
    feat = normal(sum(lengths), 2, 3)
    found = with_extra_nodes(topology, feat, lengths)
    expected = []
    for tokens in feat.split(lengths):
        n = len(tokens)
        extras = topology.num_nodes(n) - n
        lo, hi = topology.extra_starts(torch.arange(extras), torch.full((extras,), n))
        expected += list(tokens)
        for first, end in zip(lo.tolist(), hi.tolist(), strict=True):
            expected.append(
                tokens[first:end].mean(0) if end > first else torch.zeros(2, 3).double()
            )
    assert_same([found], [torch.stack(expected)])
    assert with_extra_nodes(Complete(), feat, lengths) is feat
    assert torch.equal(found[token_nodes(topology, lengths)], feat)
    assert_same(gradients([found], [feat]), gradients([torch.stack(expected)], [feat]))


@given(brute.with_extra_nodes, brute.batches)
def test_node_positions_differ_among_extra_nodes_of_a_sentence(
    topology: Topology, lengths: list[int]
) -> None:
    place = node_positions(topology, lengths)
    assert place[token_nodes(topology, lengths)].tolist() == [
        i for n in lengths for i in range(1, n + 1)
    ]
    parts = place.split([topology.num_nodes(n) for n in lengths])
    for n, own in zip(lengths, parts, strict=True):
        extras = torch.arange(len(own) - n)
        lo, hi = topology.extra_starts(extras, torch.full_like(extras, n))
        starts = list(zip((hi > lo) * lo, (hi > lo) * hi, own[n:], strict=True))
        assert len({tuple(map(float, start)) for start in starts}) == len(extras)
    assert torch.equal(parts[0], node_positions(topology, lengths[:1]))


def test_node_positions_of_each_topology() -> None:
    def extras(spec: str, n: int) -> list[float]:
        return node_positions(parse(spec), [n])[n:].tolist()

    assert extras("star", 4) == [2.5]
    assert extras("virtual:3", 4) == [0, -1, -2]
    assert extras("binary_partition:1", 4) == [1.5, 3.5, 2.5]
    assert extras("binary_partition:1", 9)[:3] == [1.5, 3.5, 5.5]
    assert extras("star|virtual:2|star", 3) == [2, 0, -1, 1]
    assert node_positions(Complete(), [2, 1]).dtype == torch.int64


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("shape", [(), (4,)])
def test_with_extra_nodes_of_many_tokens_is_their_mean(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    feat = torch.full((70_000, *shape), 1.5, dtype=dtype)
    found = with_extra_nodes(Star(), feat, [70_000])
    assert found.dtype == dtype
    assert torch.equal(found[-1], feat[0])
