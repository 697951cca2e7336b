"""No tensor that wraps others may reach a kernel, which reads memory: see `check_tensor`."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import vmap
from torch.masked import masked_tensor

from graphut.attention import edge_attention, layout_from_edges
from graphut.attention.checks import check_tensor
from graphut.nn import (
    AdaptiveConv,
    AdaptiveRecurrence,
    EventDriven,
    HaltingUnit,
    HeteroAdaptiveConv,
    LayerAsConv,
    MultiHeadAttention,
    PositionwiseTransition,
    UniversalTransformerStep,
    from_edge_index,
)
from tests.helpers import refuses

EDGES = torch.tensor([[3, 0, 1, 2, 1], [1, 2, 0, 0, 3]])  # not sorted
LAYOUT = layout_from_edges(*EDGES, num_src=4, num_dst=4)
X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
HEADS, OF_EDGES = X.view(4, 2, 4), torch.ones(5, 2)


def jagged(x: Tensor) -> Tensor:
    return torch.nested.nested_tensor([*x.detach().reshape(len(x), -1)], layout=torch.jagged)


KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "MaskedTensor": lambda x: masked_tensor(x, x == x),
    "NestedTensor": jagged,
    r"Tensor with the layout torch\.sparse_coo": Tensor.to_sparse,
    "FakeTensor": lambda x: FakeTensorMode().from_tensor(x),
}
ATTENTION = MultiHeadAttention(8, 2, allow_zero_in_degree=True)
WITH_EDGES = MultiHeadAttention(8, 2, allow_zero_in_degree=True, edge_dim=2)
STEP = UniversalTransformerStep(ATTENTION, PositionwiseTransition(8, 16))
CONV = AdaptiveConv(8, 8, heads=2, edge_dim=2)
HETERO = HeteroAdaptiveConv(8, 8, (["a"], [("a", "to", "a")]), heads=2)
HALTING = AdaptiveRecurrence(STEP, HaltingUnit(8), max_steps=3)
WAKING = AdaptiveRecurrence(STEP, rule=EventDriven(), max_steps=3, step_signal=None)
#: Each argument that is a tensor: a call with it, and the tensor.
PLACES: dict[str, tuple[Callable[[Any], Any], Tensor]] = {
    "query": (lambda x: edge_attention(LAYOUT, x, HEADS, HEADS), HEADS),
    "key": (lambda x: edge_attention(LAYOUT, HEADS, x, HEADS), HEADS),
    "value": (lambda x: edge_attention(LAYOUT, HEADS, HEADS, x), HEADS),
    "edge_bias": (lambda x: edge_attention(LAYOUT, *[HEADS] * 3, edge_bias=x), OF_EDGES),
    "edge_weight": (lambda x: edge_attention(LAYOUT, *[HEADS] * 3, edge_weight=x), OF_EDGES),
    "frontier": (
        lambda x: edge_attention(LAYOUT, *[HEADS] * 3, frontier=x),
        torch.arange(4),
    ),
    "feat of attention": (lambda x: ATTENTION(LAYOUT, x), X),
    "edge_feat of attention": (lambda x: WITH_EDGES(LAYOUT, X, edge_feat=x), OF_EDGES),
    "feat of a recurrence": (lambda x: HALTING(LAYOUT, x), X),
    "feat of a waking recurrence": (lambda x: WAKING(LAYOUT, x), X),
    "edge_bias of a recurrence": (lambda x: HALTING(LAYOUT, X, edge_bias=x), OF_EDGES),
    "x": (lambda x: CONV(x, EDGES, OF_EDGES), X),
    "edge_attr": (lambda x: CONV(X, EDGES, x), OF_EDGES),
    "x by type": (lambda x: HETERO({"a": x}, {("a", "to", "a"): EDGES}), X),
    "edge_index": (lambda x: CONV(X, x, OF_EDGES), EDGES),
    "edge_index of an adapter": (lambda x: LayerAsConv(ATTENTION)(X, x), EDGES),
    "batch": (
        lambda x: from_edge_index(EDGES, 4, batch=x),
        torch.zeros(4, dtype=torch.int64),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.filterwarnings("ignore")
def test_check_tensor_refuses_what_kernels_cannot_read(place: str, kind: str) -> None:
    (call, plain), make = PLACES[place], KINDS[kind]
    words = f"is a {kind}"
    if place.startswith("edge_index") and make is Tensor.to_sparse:
        words = r"is a sparse matrix: pass .*to_edge_index\(adj\)"
    call(plain)
    refuses(words, call, make(plain))


@pytest.mark.filterwarnings("ignore")
def test_check_tensor_refuses_transforms_and_dual_numbers() -> None:
    for call in (lambda x: ATTENTION(LAYOUT, x), lambda x: HALTING(LAYOUT, x)[0]):
        refuses("inside of torch.func", vmap(call), X[None])
        with forward_ad.dual_level(), torch.no_grad():
            refuses("forward-mode differentiation", call, forward_ad.make_dual(X, X))


@pytest.mark.filterwarnings("ignore")
def test_edges_of_pyg_equal_plain_ones() -> None:
    pyg = pytest.importorskip("torch_geometric")
    edges = pyg.EdgeIndex(EDGES, sparse_size=(4, 4))
    assert torch.equal(CONV(X, edges, OF_EDGES), CONV(X, EDGES, OF_EDGES))
    assert torch.equal(LayerAsConv(ATTENTION)(X, edges), LayerAsConv(ATTENTION)(X, EDGES))
    by_type = [HETERO({"a": X}, {("a", "to", "a"): each})["a"] for each in (edges, EDGES)]
    assert torch.equal(*by_type)
    with pytest.raises(TypeError, match="src is a Index with the layout"):
        layout_from_edges(pyg.Index(EDGES[0]), EDGES[1], num_src=4, num_dst=4)


def test_check_tensor_accepts_parameters_and_classes_with_memory() -> None:
    class Named(Tensor):
        pass

    for x in (nn.Parameter(X), X.as_subclass(Named)):
        check_tensor(x, "x")
        assert torch.equal(ATTENTION(LAYOUT, x).as_subclass(Tensor), ATTENTION(LAYOUT, X))
