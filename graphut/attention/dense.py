"""The reference backend: attention with dense masks, for any graph. It is simple and slow."""

import torch

from graphut.attention.backend import AttentionCall, AttentionResult
from graphut.attention.ragged import earlier_equals


def dense_attention(call: AttentionCall) -> AttentionResult:
    """Compute attention with a dense table of scores, which is `-inf` where there is no edge.

    The table is `(copies, A, N_src, H)`. If several edges join the same source and destination,
    each of these edges has its own bias and dropout, so each is in a different copy.
    """
    row, source, _ = call.edges
    shape = (call.query.shape[0], call.key.shape[0])
    copy = earlier_equals(row * shape[1] + source)
    copies = int(copy.max()) + 1 if copy.numel() else 1

    query, key, value = (x.to(call.score_dtype) for x in (call.query, call.key, call.value))
    scores = torch.einsum("ahd,nhd->anh", query, key) * call.scale
    edge_scores = scores[row, source]
    bias = call.bias()
    if bias is not None:
        edge_scores = edge_scores + bias
    table = scores.new_full((copies, *scores.shape), -torch.inf)
    table = table.index_put((copy, row, source), edge_scores)

    unseen = table == -torch.inf
    empty = unseen.all(2, keepdim=True).all(0, keepdim=True)
    table = table.masked_fill(empty, 0.0)  # the softmax of an empty row would be NaN
    weights = table.transpose(0, 1).flatten(1, 2).softmax(1)
    weights = weights.unflatten(1, (copies, shape[1])).transpose(0, 1).masked_fill(unseen, 0.0)
    factors = call.weight_factors()
    if factors is not None:
        weights = weights * torch.zeros_like(table).index_put((copy, row, source), factors)
    out = torch.einsum("canh,nhd->ahd", weights, value)
    return AttentionResult(out.to(call.value.dtype), weights[copy, row, source])
