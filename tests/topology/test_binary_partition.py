from __future__ import annotations

from math import log2

import pytest
import torch

from graphut.topology import BinaryPartition


@pytest.mark.parametrize("spans", [1, 2, 5])
def test_binary_partition_covers_every_token_exactly_once(spans: int) -> None:
    topology = BinaryPartition(spans)
    for n in range(1, 40):
        mask = topology.mask(n)
        tokens = torch.cat([torch.eye(n, dtype=torch.bool), mask[n:, :n]])
        assert torch.equal(mask[:n].int() @ tokens.int(), torch.ones(n, n, dtype=torch.int32))


def test_binary_partition_number_of_nodes_and_edges() -> None:
    for n in (1, 2, 3, 63, 64, 65, 1000):
        assert BinaryPartition(2).num_nodes(n) == 2 * n - 1
        assert BinaryPartition(2).num_edges(n) <= n * 5 * (log2(n) + 1)


def test_binary_partition_sees_near_tokens_one_by_one() -> None:
    assert BinaryPartition(3).mask(64)[30, 27:34].all()


def test_binary_partition_causal_sees_all_of_the_past() -> None:
    topology = BinaryPartition(2).causal()
    assert topology.is_causal() and not BinaryPartition(2).is_causal()
    for n in range(1, 20):
        mask = topology.mask(n)
        tokens = torch.cat([torch.eye(n, dtype=torch.bool), mask[n:, :n]])
        assert torch.equal(
            mask[:n].int() @ tokens.int(), torch.ones(n, n, dtype=torch.int32).tril()
        )
