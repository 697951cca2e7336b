"""The arguments of one attention call, checked and made uniform for the backends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphut.attention.cached_property import cached_property
from graphut.attention.dropout import dropout_factors
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
    scale: float = 1.0  # factor of the scores
    dropout: float = 0.0  # probability that an attention weight is dropped
    seed: int = 0  # of the dropout mask
    need_weights: bool = False  # whether the caller wants the attention weights

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
        return self.edge_bias is not None or self.relative_bias is not None

    @property
    def is_plain(self) -> bool:
        """True if nothing belongs to a single edge: no bias, no dropout, no weights asked for."""
        return not (self.has_bias or self.dropout or self.need_weights)

    def bias(self) -> Tensor | None:
        """Return the bias of each of `edges`, `(e, H)` or `(e, 1)`."""
        row, source, edge = self.edges if self.has_bias else (None, None, None)
        bias = None if self.edge_bias is None else self.edge_bias[edge].to(self.score_dtype)
        if self.relative_bias is None or row is None or source is None:
            return bias
        node = row if self.frontier is None else self.frontier[row]
        relative = _by_offset(self.relative_bias, source - node).to(self.score_dtype)
        return relative if bias is None else bias + relative

    def with_bias_by_edge(self) -> AttentionCall:
        """Return the same call with an `edge_bias` in place of the `relative_bias`."""
        if self.relative_bias is None:
            return self
        row, source, edge = self.layout.in_edges()
        relative = _by_offset(self.relative_bias, source - row)
        bias = relative.new_zeros(relative.shape).index_copy(0, edge, relative)
        if self.edge_bias is not None:
            bias = bias + self.edge_bias
        return replace(self, edge_bias=bias, relative_bias=None)

    def dropout_factors(self) -> Tensor | None:
        """Return what dropout multiplies the weights of `edges` by, `(e, H)`."""
        if self.dropout == 0.0:
            return None
        heads = self.query.shape[1]
        return dropout_factors(self.edges[2], heads, self.dropout, self.seed, self.score_dtype)


def _by_offset(table: Tensor, offset: Tensor) -> Tensor:
    """Return the entries `(e, H)` of `(H, 2 R + 1)` for offsets, clipped to `R`."""
    reach = table.shape[1] // 2
    return table.T[offset.clamp(-reach, reach) + reach]
