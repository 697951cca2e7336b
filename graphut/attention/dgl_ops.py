"""The backend "dgl": attention as message passing, with the operators of `dgl.ops`."""

import torch

from graphut._dgl import dgl
from graphut.attention.backend import AttentionCall, AttentionResult
from graphut.attention.first_derivatives import differentiable_once


def dgl_attention(call: AttentionCall) -> AttentionResult:
    """Compute attention with DGL's `u_dot_v`, `edge_softmax` and `u_mul_e_sum`."""
    row, source, _ = call.edges
    graph = dgl.create_block((source, row), call.key.shape[0], call.query.shape[0])
    tables = (x.to(call.score_dtype) for x in (call.query, call.key, call.value))
    bias, factors = call.bias(), call.weight_factors()
    by_edge = [x for x in (bias, factors) if x is not None]
    # In `dgl.ops`, second derivatives are wrong.
    query, key, value, *by_edge = differentiable_once(*tables, *by_edge)
    scores = dgl.ops.u_dot_v(graph, key, query) * call.scale
    if bias is not None:
        scores = scores + by_edge[0][..., None]
    unseen = scores == -torch.inf
    empty = dgl.ops.copy_e_max(graph, scores.detach()) == -torch.inf
    scores = scores.masked_fill(empty[row], 0.0)  # their softmax would be NaN
    weights = dgl.ops.edge_softmax(graph, scores).masked_fill(unseen, 0.0)
    if factors is not None:
        weights = weights * by_edge[-1][..., None]
    out = dgl.ops.u_mul_e_sum(graph, value, weights)
    return AttentionResult(out.to(call.value.dtype), weights[..., 0])
