"""The interface of a backend: what it takes, what it returns, and which calls it supports."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from graphut.attention.dropout import dropout_factors
from graphut.attention.edge_sums import edge_dot
from graphut.attention.layout import EdgeLayout
from graphut.attention.tracing import cached_property


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionCall:
    """The checked arguments of one attention call.

    A backend outputs zeros for a query row that has no in-edges or whose scores are all `-inf`.
    """

    layout: EdgeLayout  # the edges, on the device of the features
    query: Tensor  # (A, H, D), one row for each destination of the frontier
    key: Tensor  # (N_src, H, D)
    value: Tensor  # (N_src, H, Dv)
    frontier: Tensor | None = None  # (A,) int64 destination ids, sorted and unique; None for all
    edge_bias: Tensor | None = None  # (E, H) or (E, 1), added to the scores, by edge id
    edge_feat: Tensor | None = None  # (E, H, F) or (E, 1, F), by edge id; the scores are increased
    edge_query: Tensor | None = None  # (A, H, F) by the dot product of edge_query and edge_feat
    edge_weight: Tensor | None = None  # (E, H) or (E, 1), factor of the attention weights
    scale: float = 1.0  # factor of the scores
    dropout: float = 0.0  # probability that an attention weight is dropped
    seed: int | Tensor = 0  # seed of the dropout mask; an int64 tensor on a GPU
    need_weights: bool = False  # whether the attention weights must be returned

    @cached_property
    def edges(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the query rows' in-edges, `(row, source, edge id)`; see `EdgeLayout.in_edges`."""
        return self.layout.in_edges(self.frontier)

    @property
    def score_dtype(self) -> torch.dtype:
        """The dtype of scores, softmax and sums: float32 or wider."""
        return torch.promote_types(self.query.dtype, torch.float32)

    @property
    def has_bias(self) -> bool:
        """True if a bias is added to the scores."""
        return self.edge_bias is not None or self.edge_feat is not None

    def bias(self) -> Tensor | None:
        """Return the bias of each edge in `edges`, `(e, H)` or `(e, 1)`, or None without one."""
        if not self.has_bias:
            return None
        row, _, edge = self.edges
        bias = None if self.edge_bias is None else self.edge_bias[edge].to(self.score_dtype)
        if self.edge_feat is None:
            return bias
        assert self.edge_query is not None
        product = edge_dot(self.edge_query, self.edge_feat, row, edge)
        return product if bias is None else bias + product

    def weight_factors(self) -> Tensor | None:
        """Return the dropout factors times `edge_weight`, `(e, H)` or `(e, 1)`; None without."""
        edge, heads, weight = self.edges[2], self.query.shape[1], None
        if self.edge_weight is not None:
            weight = self.edge_weight[edge].to(self.score_dtype)
        if self.dropout == 0.0:
            return weight
        factors = dropout_factors(edge, heads, self.dropout, self.seed, self.score_dtype)
        return factors if weight is None else factors * weight


class AttentionResult(NamedTuple):
    """The output of an attention call and, if the backend returns them, the attention weights."""

    out: Tensor  # (A, H, Dv)
    weights: Tensor | None = None  # (e, H), in the order of `AttentionCall.edges`


@dataclass(frozen=True, eq=False, kw_only=True)
class Backend:
    """One implementation of attention: its name, its function, and the calls that it supports."""

    name: str  #: the value of the argument `backend` that selects it
    attend: Callable[[AttentionCall], AttentionResult]
    devices: tuple[str, ...] | None = None  #: supported types of devices; None for all
    checks_device: bool = False  #: True if `attend` raises on a device that it cannot use
    dtypes: tuple[torch.dtype, ...] | None = None  #: supported dtypes of features; None for all
    returns_weights: bool = True  #: if False, calls that need attention weights use "torch"
    #: Return whether the required packages and files exist. Called last, because it may warn.
    is_installed: Callable[[], bool] = lambda: True

    def can_do(self, call: AttentionCall) -> bool:
        """Return whether the backend supports a call."""
        return (
            (self.devices is None or call.query.device.type in self.devices)
            and (self.dtypes is None or call.query.dtype in self.dtypes)
            and (self.returns_weights or not call.need_weights)
            and self.is_installed()
        )

    def check(self, query: Tensor) -> None:
        """Raise an error unless the backend supports the query's dtype and device."""
        dtype, device = query.dtype, query.device.type
        if self.devices is not None and device not in self.devices and not self.checks_device:
            raise ValueError(
                f"the backend {self.name!r} runs on {' and '.join(self.devices)}, but the features "
                f"are on {query.device}: move them, or use backend='auto'"
            )
        if self.dtypes is not None and dtype not in self.dtypes:
            *most, last = (str(known).removeprefix("torch.") for known in self.dtypes)
            raise TypeError(
                f"the backend {self.name!r} takes {', '.join(most)} and {last}, got {dtype}: "
                "convert the features, or use backend='torch'"
            )
