"""Message passing on `dgl.ops`: the textbook form, with one tensor entry an edge."""

from __future__ import annotations

import torch

from graphut._dgl import dgl, is_installed
from graphut.attention.backend import AttentionResult, Backend
from graphut.attention.call import AttentionCall


def dgl_attention(call: AttentionCall) -> AttentionResult:
    """Attend by `u_dot_v`, edge softmax and `u_mul_e_sum` over the in-edges of the query rows."""
    row, source, _ = call.edges
    graph = dgl.create_block((source, row), call.key.shape[0], call.query.shape[0])
    query, key, value = (x.to(call.score_dtype) for x in (call.query, call.key, call.value))
    scores = dgl.ops.u_dot_v(graph, key, query) * call.scale
    bias = call.bias()
    if bias is not None:
        scores = scores + bias[..., None]
    lowest = torch.finfo(scores.dtype).min  # keeps the softmax of a dead row from NaN
    weights = dgl.ops.edge_softmax(graph, scores.clamp_min(lowest))
    weights = weights.masked_fill(scores == -torch.inf, 0.0)
    factors = call.weight_factors()
    if factors is not None:
        weights = weights * factors[..., None]
    out = dgl.ops.u_mul_e_sum(graph, value, weights)
    return AttentionResult(out.to(call.value.dtype), weights[..., 0])


DGL = Backend(
    name="dgl",
    attend=dgl_attention,
    devices=("cpu",),  # as is the wheel of DGL
    traceable=False,
    is_installed=lambda: is_installed,
    auto_rank=lambda call: 2,
)
