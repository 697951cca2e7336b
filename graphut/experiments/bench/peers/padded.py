"""Scaled-dot-product attention of a batch padded to a rectangle, with a mask.

The inputs lie in the rectangle already, as they do in a model that pads: filling and emptying
it is not timed. Active queries are packed to the left of a rectangle of their own.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from graphut.experiments.bench.contender import Contender
from graphut.experiments.bench.peers.room import check_plain, check_room
from graphut.experiments.bench.problem import AttentionProblem
from graphut.experiments.bench.rectangle import Rectangle, padded_mask, rows_by_sentence


def prepare_padded(problem: AttentionProblem) -> Contender:
    """See the module."""
    check_plain(problem.biased)
    layout = problem.layout
    counts = rows_by_sentence(layout, problem.frontier)
    rows, sources = Rectangle.of(counts), Rectangle.of(layout.src_lengths.to(layout.device))
    # The mask as booleans, and once more as numbers, which torch makes of it.
    entry = 2 + problem.inputs[0].element_size()
    check_room(rows.present.numel() * sources.present.shape[1] * entry, problem.device)
    mask = padded_mask(rows, sources, problem.in_edges)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
        return scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2)

    return Contender(attend, rows, sources)
