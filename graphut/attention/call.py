"""The arguments of one attention call, checked and made uniform for the backends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphut.attention.dropout import dropout_factors
from graphut.attention.kept import kept
from graphut.attention.layout import EdgeLayout


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionCall:
    """What a backend gets. A row without in-edges, or with none above `-inf`, is to be zero.

    Parameters
    ----------
    layout : EdgeLayout
        The edges, on the device of the features.
    query : Tensor
        `(A, H, D)`, one row for each destination in `frontier`.
    key, value : Tensor
        `(N_src, H, D)` and `(N_src, H, Dv)`.
    frontier : Tensor or None
        `(A,)` int64 destination ids, sorted and unique; `None` for all.
    edge_bias : Tensor or None
        `(E, H)` or `(E, 1)`, added to the scores, in the graph's edge order.
    relative_bias : Tensor or None
        `(H, 2 R + 1)`, added to the scores by source minus destination, from `-R` to `R`.
    scale : float
        Factor of the scores.
    dropout : float
        Probability that a weight is dropped.
    seed : int
        With the edge and the head it decides which.
    need_weights : bool
        Whether the caller wants the attention weights.
    """

    layout: EdgeLayout
    query: Tensor
    key: Tensor
    value: Tensor
    frontier: Tensor | None
    edge_bias: Tensor | None
    scale: float
    dropout: float
    seed: int
    need_weights: bool
    relative_bias: Tensor | None = None

    @kept
    def edges(self) -> tuple[Tensor, Tensor, Tensor]:
        """`(row, source, edge)` of the in-edges of the query rows."""
        return self.layout.in_edges(self.frontier)

    @property
    def score_dtype(self) -> torch.dtype:
        """Scores, softmax and sums are in float32 or wider."""
        return torch.promote_types(self.query.dtype, torch.float32)

    @property
    def plain(self) -> bool:
        """No bias, no dropout, no weights asked for: nothing that belongs to a single edge."""
        return not (self.biased or self.dropout or self.need_weights)

    @property
    def biased(self) -> bool:
        """Whether anything is added to the scores."""
        return self.edge_bias is not None or self.relative_bias is not None

    def bias(self) -> Tensor | None:
        """The bias of each of `edges`, `(e, H)` or `(e, 1)`."""
        row, source, edge = self.edges if self.biased else (None, None, None)
        bias = None if self.edge_bias is None else self.edge_bias[edge].to(self.score_dtype)
        if self.relative_bias is None or row is None or source is None:
            return bias
        node = row if self.frontier is None else self.frontier[row]
        relative = _by_offset(self.relative_bias, source - node).to(self.score_dtype)
        return relative if bias is None else bias + relative

    def with_bias_by_edge(self) -> AttentionCall:
        """The same call with an `edge_bias` in place of the `relative_bias`."""
        if self.relative_bias is None:
            return self
        row, source, edge = self.layout.in_edges()
        relative = _by_offset(self.relative_bias, source - row)
        bias = relative.new_zeros(relative.shape).index_copy(0, edge, relative)
        if self.edge_bias is not None:
            bias = bias + self.edge_bias
        return replace(self, edge_bias=bias, relative_bias=None)

    def factors(self) -> Tensor | None:
        """What dropout multiplies the weights of `edges` by, `(e, H)`."""
        if self.dropout == 0.0:
            return None
        heads = self.query.shape[1]
        return dropout_factors(self.edges[2], heads, self.dropout, self.seed, self.score_dtype)


def _by_offset(table: Tensor, offset: Tensor) -> Tensor:
    """Entries of `(H, 2 R + 1)` for offsets, clipped to `R`: `(e, H)`."""
    reach = table.shape[1] // 2
    return table.T[offset.clamp(-reach, reach) + reach]
