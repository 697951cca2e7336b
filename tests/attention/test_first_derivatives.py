import pytest
import torch

from graphut.attention import edge_attention
from graphut.topology import Causal
from tests.helpers import normal


@pytest.mark.parametrize("backend", ["native", "dgl"])
def test_attention_refuses_second_derivatives(backend: str) -> None:
    query = normal(5, 2, 3)
    out = edge_attention(Causal().layout([5]), query, query, query, backend=backend)
    with pytest.raises(RuntimeError, match="kernels and DGL have no second derivatives"):
        torch.autograd.grad(out.square().sum(), query, create_graph=True)
