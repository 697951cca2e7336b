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
        assert topology.num_nodes(n) == 2 * n - 1
        assert topology.num_edges(n) <= n * (2 * spans + 1) * (log2(n) + 1)


def test_binary_partition_causal_sees_all_of_the_past() -> None:
    topology = BinaryPartition(2).causal()
    for n in range(1, 20):
        mask = topology.mask(n)
        tokens = torch.cat([torch.eye(n, dtype=torch.bool), mask[n:, :n]])
        assert torch.equal(
            mask[:n].int() @ tokens.int(), torch.ones(n, n, dtype=torch.int32).tril()
        )
