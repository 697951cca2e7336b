"""The arguments of one attention call, checked and made uniform for the backends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from graphut.attention.dropout import dropout_factors
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

    @cached_property
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
        return self.edge_bias is None and self.dropout == 0.0 and not self.need_weights

    def bias(self) -> Tensor | None:
        """The bias of each of `edges`, `(e, H)` or `(e, 1)`."""
        if self.edge_bias is None:
            return None
        return self.edge_bias[self.edges[2]].to(self.score_dtype)

    def factors(self) -> Tensor | None:
        """What dropout multiplies the weights of `edges` by, `(e, H)`."""
        if self.dropout == 0.0:
            return None
        heads = self.query.shape[1]
        return dropout_factors(self.edges[2], heads, self.dropout, self.seed, self.score_dtype)
