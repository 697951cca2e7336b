"""Attention weights of all steps of a recurrence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graphut.attention import EdgeLayout
from graphut.attention.ragged import starts


@dataclass(frozen=True, eq=False)
class AttentionRecord:
    """The attention weights of one layer in each step.

    Examples
    --------
    >>> from graphut.nn import AdaptiveRecurrence
    >>> from graphut.nn import MultiHeadAttention, PositionwiseTransition, UniversalTransformerStep
    >>> from graphut.topology import Causal
    >>> step = UniversalTransformerStep(MultiHeadAttention(8, 2), PositionwiseTransition(8, 32))
    >>> layer = AdaptiveRecurrence(step, max_steps=3)
    >>> _, ponder, _ = layer(Causal().graph([4, 2]), torch.randn(6, 8), get_attention=True)
    >>> ponder.attention.weights[0].shape
    torch.Size([13, 2])
    >>> ponder.attention.dense(1).shape
    torch.Size([3, 2, 2, 2])
    """

    layout: EdgeLayout  #: `layout.in_edges()` returns destination, source and id of each edge
    #: `(E, H)` for each step, by edge id: zero for edges into nodes that the step did not compute
    weights: Sequence[Tensor]

    def dense(self, sentence: int = 0) -> Tensor:
        """Return the weights of one sentence, or graph, of the batch as a dense tensor.

        The result is `(steps, heads, destinations, sources)`. Weights of parallel edges are added;
        pairs of nodes without an edge have weight zero. Raise `ValueError` if there is no such
        sentence.
        """
        layout = self.layout
        if not 0 <= sentence < len(layout.dst_lengths):
            raise ValueError(
                f"there is no sentence {sentence} in a batch of {len(layout.dst_lengths)}, "
                "counted from 0"
            )
        both = layout.dst_lengths, layout.src_lengths
        num_dst, num_src = (int(lengths[sentence]) for lengths in both)
        first_dst, first_src = (int(starts(lengths)[sentence]) for lengths in both)
        rows = torch.arange(first_dst, first_dst + num_dst, device=layout.device)
        row, source, edge = layout.in_edges(rows)
        by_edge = torch.stack([weights[edge] for weights in self.weights])
        table = by_edge.new_zeros(len(by_edge), num_dst * num_src, by_edge.shape[2])
        table = table.index_add(1, row * num_src + source - first_src, by_edge)
        return table.unflatten(1, (num_dst, num_src)).movedim(3, 1)
