from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphut._dgl import dgl
from graphut.attention import edge_attention
from graphut.topology import Causal, Complete
from tests.attention.naive import GRAPHS, inputs
from tests.helpers import assert_same, gradients, layout_of, pairs_of


def message_passing(graph: dgl.DGLGraph, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The textbook form on DGL's public interface."""
    with graph.local_scope():
        graph.srcdata["k"], graph.srcdata["v"], graph.dstdata["q"] = key, value, query
        graph.apply_edges(dgl.function.u_dot_v("k", "q", "score"))
        scores = graph.edata["score"] * query.shape[2] ** -0.5
        graph.edata["a"] = dgl.nn.functional.edge_softmax(graph, scores)
        graph.update_all(dgl.function.u_mul_e("v", "a", "m"), dgl.function.sum("m", "o"))
        return graph.dstdata["o"]


@pytest.mark.parametrize("name", ["causal", "cross", "hubs", "parallel"])
def test_dgl_attention_is_dgls_own_message_passing(name: str) -> None:
    layout = GRAPHS[name]
    src, dst = torch.tensor(pairs_of(layout)).T
    nodes = {"source": layout.num_src, "target": layout.num_dst}
    graph = dgl.heterograph({("source", "to", "target"): (src, dst)}, num_nodes_dict=nodes)
    tensors = inputs(layout)
    found = edge_attention(graph, *tensors, allow_zero_in_degree=True, backend="dgl")
    expected = message_passing(graph, *tensors)
    assert_same([found], [expected])
    assert_same(gradients([found], tensors), gradients([expected], tensors))


def test_dgl_attention_of_batches_graphs_and_blocks() -> None:
    batch = dgl.batch([Causal().graph([3]), Complete().graph([2])])
    layout = layout_of([*pairs_of(Causal().layout([3])), (3, 3), (4, 3), (3, 4), (4, 4)], 5, 5)
    found = edge_attention(batch, *inputs(layout), backend="dgl")
    assert_same([found], [edge_attention(layout, *inputs(layout), backend="dense")])

    graph = dgl.graph(([0, 1, 2, 4], [1, 2, 1, 1]), num_nodes=5)
    block = dgl.to_block(graph, torch.tensor([1, 2]))
    query, key, value = inputs(layout)
    rows, nodes = block.dstdata[dgl.NID], block.srcdata[dgl.NID]
    on_block = edge_attention(block, query[rows], key[nodes], value[nodes], backend="dgl")
    whole = edge_attention(graph, query, key, value, allow_zero_in_degree=True, backend="dense")
    assert_same([on_block], [whole[rows]])


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
