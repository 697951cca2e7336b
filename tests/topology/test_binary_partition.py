from math import log2

import pytest
import torch

from graphut.topology import BinaryPartition


@pytest.mark.parametrize("spans", [1, 2, 5])
@pytest.mark.parametrize("causal", [False, True])
def test_binary_partition_covers_every_token_that_it_may_see_once(causal: bool, spans: int) -> None:
    topology = BinaryPartition(spans)
    for n in range(1, 40):
        mask = (topology.causal() if causal else topology).mask(n)
        tokens = torch.cat([torch.eye(n, dtype=torch.bool), mask[n:, :n]])
        seen = torch.ones(n, n, dtype=torch.int32)
        assert torch.equal(mask[:n].int() @ tokens.int(), seen.tril() if causal else seen)
        assert topology.num_nodes(n) == 2 * n - 1
        assert topology.num_edges(n) <= n * (2 * spans + 1) * (log2(n) + 1)
