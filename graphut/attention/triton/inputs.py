"""The inputs of the Triton kernels for one attention call."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from graphut.attention.dropout import drop_below
from graphut.attention.layout import EdgeLayout
from graphut.attention.triton.sizes import FUSED


@dataclass(frozen=True, eq=False)
class ActiveRows:
    """The destination of each query row of a call; made by `active_rows`."""

    # (rows,) int64, sorted, at the end past num_dst; None if row i is destination i
    nodes: Tensor | None
    rows: int  # how many rows there may be
    num_dst: int  # number of destinations
    tables: dict[int, Any] = field(default_factory=dict)  # blocks of rows, by their height

    @cached_property
    def slot(self) -> Tensor | None:
        """Query row of each destination, int32, -1 if it is inactive; `None` if all are active."""
        if self.nodes is None:
            return None
        row = torch.arange(self.rows, dtype=torch.int32, device=self.nodes.device)
        slot = row.new_full((self.num_dst + 1,), -1)  # the last takes what is no destination
        return slot.scatter_(0, self.nodes.clamp_max(self.num_dst), row)

    def first_row(self, cuts: Tensor) -> Tensor:
        """Return for each id in `cuts` the first query row with this destination or a later one."""
        if self.nodes is None:
            return cuts.int()
        return torch.searchsorted(self.nodes, cuts, out_int32=True)


def active_rows(num_dst: int, frontier: Tensor | None) -> ActiveRows:
    """Return the `ActiveRows` of a frontier, or of all destinations if it is None.

    The frontier may end in ids beyond the last destination.
    """
    if frontier is None:
        return ActiveRows(None, num_dst, num_dst)
    return ActiveRows(frontier.contiguous(), frontier.numel(), num_dst)


@dataclass(frozen=True, eq=False)
class KernelInputs:
    """The inputs of an attention call that forward and backward kernels share."""

    layout: EdgeLayout
    active: ActiveRows
    query: Tensor  # (rows, H, D), as key and value each row without gaps: see `packed`
    key: Tensor  # (N_src, H, D)
    value: Tensor  # (N_src, H, Dv)
    edge_bias: Tensor | None  # (E, H) or (E, 1), contiguous
    scale: float  # factor of the scores
    dropout: float  # probability that a weight is dropped
    seed: int | Tensor  # of the dropout mask; with dropout a tensor, int64
    split: int  # edges of a row that one program does at most, where rows are gathered

    @property
    def heads(self) -> int:
        """Number of heads."""
        return self.query.shape[1]

    @property
    def widths(self) -> tuple[int, int]:
        """Features per head of key and of value, each padded to a power of two, at least 16."""
        return padded(self.query.shape[2]), padded(self.value.shape[2])

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that all attention kernels share, as a dictionary by name."""
        block_width, block_value = self.widths
        return {
            "query": self.query,
            "key": self.key,
            "value": self.value,
            "bias": self.edge_bias,
            "query_stride": self.query.stride(0),
            "key_stride": self.key.stride(0),
            "value_stride": self.value.stride(0),
            "scale": float(self.scale),
            **self._dropout_arguments(),
            "heads": self.heads,
            "bias_heads": 0 if self.edge_bias is None else self.edge_bias.shape[1],
            "width": self.query.shape[2],
            "value_width": self.value.shape[2],
            "block_width": block_width,
            "block_value": block_value,
            **FUSED,
        }

    def _dropout_arguments(self) -> dict[str, Any]:
        if self.dropout == 0.0:
            return dict.fromkeys(("seed", "threshold", "keep"))
        return {
            "seed": self.seed,
            # The signed integer with the same 32 bits, since the kernels take int32.
            "threshold": (drop_below(self.dropout) ^ 0x80000000) - 0x80000000,
            "keep": 1.0 / (1.0 - self.dropout),
        }


def packed(rows: Tensor) -> Tensor:
    """Return `rows`, `(n, H, D)`, without gaps inside a row; copy only if necessary."""
    heads, feats = rows.shape[1:]
    dense = (feats <= 1 or rows.stride(2) == 1) and (heads <= 1 or rows.stride(1) == feats)
    return rows if dense else rows.contiguous()


def padded(width: int) -> int:
    """Round `width` up to a power of two of at least 16, as tensor cores require."""
    return max(16, 1 << (width - 1).bit_length())
