"""The backend "dgl": attention as message passing, with the operators of `dgl.ops`."""

import torch

from graphut._dgl import dgl
from graphut.attention.backend import AttentionCall, AttentionResult
from graphut.attention.first_derivatives import refuse_second_derivatives


def dgl_attention(call: AttentionCall) -> AttentionResult:
    """Compute attention with DGL's `u_dot_v`, `edge_softmax` and `u_mul_e_sum`."""
    row, source, _ = call.edges
    graph = dgl.create_block((source, row), call.key.shape[0], call.query.shape[0])
    query, key, value = (x.to(call.score_dtype) for x in (call.query, call.key, call.value))
    bias, factors = call.bias(), call.weight_factors()
    scores = dgl.ops.u_dot_v(graph, key, query) * call.scale
    if bias is not None:
        scores = scores + bias[..., None]
    unseen = scores == -torch.inf
    empty = dgl.ops.copy_e_max(graph, scores.detach()) == -torch.inf
    scores = scores.masked_fill(empty[row], 0.0)  # their softmax would be NaN
    weights = dgl.ops.edge_softmax(graph, scores).masked_fill(unseen, 0.0)
    if weights.requires_grad:
        weights.register_hook(refuse_second_derivatives)  # those of `dgl.ops` are wrong
    if factors is not None:
        weights = weights * factors[..., None]
    out = dgl.ops.u_mul_e_sum(graph, value, weights)
    if out.requires_grad:
        out.register_hook(refuse_second_derivatives)
    return AttentionResult(out.to(call.value.dtype), weights[..., 0])
