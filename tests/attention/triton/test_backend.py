import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from graphut.attention import edge_attention
from graphut.attention.backend import AttentionCall
from graphut.attention.triton import backend
from graphut.attention.triton.backend import attend_or_fall_back
from graphut.nn import MultiHeadAttention
from graphut.topology import Causal
from tests.attention.naive import GRAPHS, inputs
from tests.helpers import assert_same, layout_of


def call_of(x: Tensor, **options: Any) -> AttentionCall:
    layout = Causal().layout([2]).to(x.device)
    return AttentionCall(layout=layout, query=x, key=x, value=x, **options)


@pytest.fixture
def without_triton(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, "triton", None)
    backend._import_error.cache_clear()
    yield
    backend._import_error.cache_clear()


@pytest.mark.usefixtures("without_triton")
def test_triton_attention_says_what_to_install() -> None:
    call = call_of(torch.zeros(2, 1, 4))
    with pytest.raises(ImportError, match="pip install triton, or use backend='torch'"):
        attend_or_fall_back(call)


def test_triton_attention_refuses_tensors_on_the_cpu_where_kernels_are_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("triton", reason="needs triton")
    monkeypatch.setattr("graphut.attention.triton.function.INTERPRETED", False)
    with pytest.raises(ValueError, match="needs tensors on a CUDA device, got cpu: move them"):
        attend_or_fall_back(call_of(torch.zeros(2, 1, 4)))


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("graph", ["causal", "hubs"])
def test_triton_attention_is_a_backend(graph: str, weights: bool) -> None:
    pytest.importorskip("triton", reason="needs triton")
    options: dict[str, Any] = {"allow_zero_in_degree": True, "get_attention": weights}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tensors = [x.detach().float().to(device) for x in inputs(GRAPHS[graph])]
    found, expected = (
        edge_attention(GRAPHS[graph], *tensors, backend=name, **options)
        for name in ("triton", "dense")
    )
    assert_same(*((x if weights else [x]) for x in (found, expected)), 1e-5)


class Elsewhere(torch.Tensor):
    """Says that it is on a GPU."""

    is_cuda = True


def test_uses_triton_refuses_a_node_without_in_edges() -> None:
    layout, like = layout_of([(0, 0), (0, 2)], 3, 3), torch.zeros(5, 4).as_subclass(Elsewhere)
    layer = MultiHeadAttention(4, 2, backend="triton", allow_zero_in_degree=True)
    assert layer.uses_triton(layout, like)
    layer.allow_zero_in_degree = False
    with pytest.raises(ValueError, match=r"no in-edge to attend to \(node 1\)"):
        layer.uses_triton(layout, like)
