import pytest
import torch

from graphut.attention import edge_attention
from tests.attention.naive import GRAPHS, inputs


@pytest.mark.parametrize("of", ["state", "edge_bias", "edge_weight"])
def test_dgl_attention_has_no_second_derivatives(of: str) -> None:
    layout = GRAPHS["causal"]
    weight, feat = torch.randn(3, 3).double().requires_grad_(), inputs(layout)[2].detach()
    numbers = {
        name: torch.rand(layout.num_edges).double().requires_grad_()
        for name in ("edge_bias", "edge_weight")
    }
    state = feat @ weight
    out = edge_attention(layout, state, state, state, **numbers, backend="dgl")
    leaf = {"state": state, **numbers}[of]
    # The slope depends on the weight by another path too, which must not hide the error.
    [slope] = torch.autograd.grad((state + out @ weight).tanh().sum(), leaf, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(slope.square().sum() + weight.sum(), weight)
