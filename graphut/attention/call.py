"""The arguments of one attention call, checked and made uniform for the backends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor

from graphut.attention.cached_property import cached_property
from graphut.attention.dropout import dropout_factors
from graphut.attention.edge_sums import edge_dot
from graphut.attention.layout import EdgeLayout


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionCall:
    """The arguments of one attention call, as every backend gets them.

    A backend gives zeros to a query row without in-edges, or without one whose score is above
    `-inf`.
    """

    layout: EdgeLayout  # the edges, on the device of the features
    query: Tensor  # (A, H, D), one row for each destination of the frontier
    key: Tensor  # (N_src, H, D)
    value: Tensor  # (N_src, H, Dv)
    frontier: Tensor | None = None  # (A,) int64 destination ids, sorted and unique; None for all
    edge_bias: Tensor | None = None  # (E, H) or (E, 1), added to the scores, by edge id
    relative_bias: Tensor | None = None  # (H, 2 R + 1), added by source minus destination
    edge_feat: Tensor | None = None  # (E, H, F) or (E, 1, F), whose product with
    edge_query: Tensor | None = None  # (A, H, F) is added to the scores
    edge_weight: Tensor | None = None  # (E, H) or (E, 1), factor of the attention weights
    scale: float = 1.0  # factor of the scores
    dropout: float = 0.0  # probability that an attention weight is dropped
    seed: int | Tensor = 0  # of the dropout mask; a tensor, int64, is on the device
    need_weights: bool = False  # whether the attention weights have to be returned

    @cached_property
    def edges(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the `(row, source, edge)` indices of the in-edges of the query rows."""
        return self.layout.in_edges(self.frontier)

    @property
    def score_dtype(self) -> torch.dtype:
        """The dtype of scores, softmax and sums: float32 or wider."""
        return torch.promote_types(self.query.dtype, torch.float32)

    @property
    def has_bias(self) -> bool:
        """True if a bias is added to the scores."""
        biased = self.edge_bias is not None or self.relative_bias is not None
        return biased or self.edge_feat is not None

    @property
    def is_plain(self) -> bool:
        """True if nothing belongs to a single edge: no bias, no dropout, no weights asked for."""
        return not (self.has_bias or self.dropout or self.need_weights)

    def bias(self) -> Tensor | None:
        """Return the bias of each of `edges`, `(e, H)` or `(e, 1)`."""
        if not self.has_bias:
            return None
        row, source, edge = self.edges
        terms = []
        if self.edge_bias is not None:
            terms.append(self.edge_bias[edge])
        if self.relative_bias is not None:
            node = row if self.frontier is None else self.frontier[row]
            terms.append(_by_offset(self.relative_bias, source - node))
        if self.edge_feat is not None:
            assert self.edge_query is not None
            terms.append(edge_dot(self.edge_query, self.edge_feat, row, edge))
        return reduce(torch.add, (term.to(self.score_dtype) for term in terms))

    def with_bias_by_edge(self) -> AttentionCall:
        """Return the same call with an `edge_bias` in place of the `relative_bias`."""
        if self.relative_bias is None:
            return self
        row, source, edge = self.layout.in_edges()
        relative = _by_offset(self.relative_bias, source - row).to(self.score_dtype)
        bias = relative.new_zeros(relative.shape).index_copy(0, edge, relative)
        if self.edge_bias is not None:
            bias = bias + self.edge_bias
        return replace(self, edge_bias=bias, relative_bias=None)

    def weight_factors(self) -> Tensor | None:
        """Return what multiplies the weights of `edges` after softmax, `(e, H)` or `(e, 1)`."""
        edge, heads, given = self.edges[2], self.query.shape[1], None
        if self.edge_weight is not None:
            given = self.edge_weight[edge].to(self.score_dtype)
        if self.dropout == 0.0:
            return given
        factors = dropout_factors(edge, heads, self.dropout, self.seed, self.score_dtype)
        return factors if given is None else factors * given


def _by_offset(table: Tensor, offset: Tensor) -> Tensor:
    """Return the entries `(e, H)` of `(H, 2 R + 1)` for offsets, clipped to `R`."""
    reach = table.shape[1] // 2
    return table.T[offset.clamp(-reach, reach) + reach]
