"""The inputs of the Triton kernels for one attention call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphut.attention.dropout import signed_threshold
from graphut.attention.layout import EdgeLayout
from graphut.attention.triton.sizes import FUSED


class Launch(NamedTuple):
    """A call of a kernel that has not been made yet."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: dict[str, Any]

    def run(self) -> None:
        """Launch the kernel."""
        self.kernel[self.grid](**self.arguments)


@dataclass(frozen=True, eq=False)
class ActiveRows:
    """The destination of each query row of a call; made by `active_rows`."""

    nodes: Tensor | None  # (rows,) ids, sorted; None if row i is destination i
    rows: int  # how many rows there may be
    before: Tensor | None  # (num_dst + 1,) int32, number of rows before each destination
    count: Tensor | None = None  # int32, the number of rows, if only the device knows it


def active_rows(num_dst: int, frontier: Tensor | None) -> ActiveRows:
    """Return the `ActiveRows` of a frontier, or of all destinations if it is None."""
    if frontier is None:
        return ActiveRows(None, num_dst, None)
    nodes = frontier.contiguous()
    every = torch.arange(num_dst + 1, device=nodes.device)
    return ActiveRows(nodes, nodes.numel(), torch.searchsorted(nodes, every, out_int32=True))


@dataclass(frozen=True, eq=False)
class TableSteps:
    """The rows of a step in a table with the keys and values of all steps, `(steps * N_src, ...)`.

    A step stores only some sources; `table_row` in the kernels finds the latest row of each.
    """

    settled: Tensor  # (N_src,) int32, the last step that stores a source
    size: int  # number of rows for each step
    step: int  # the step that reads the table, counted from 1
    last_step: int  # the last step


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
    steps: TableSteps | None = None  # None if key and value have one row for each source
    tables: Any = None  # in place of those of the layout

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
            "nodes": self.active.nodes,
            "before": self.active.before,
            "settled": None if self.steps is None else self.steps.settled,
            "num_src": 0 if self.steps is None else self.steps.size,
            "step": 1 if self.steps is None else self.steps.step,
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

    def source_arguments(self, to_key: Tensor, to_value: Tensor) -> dict[str, Any]:
        """Return the further arguments of kernels that write the gradients of key and value."""
        return {
            "last_step": 1 if self.steps is None else self.steps.last_step,
            "to_key_stride": to_key.stride(0),
            "to_value_stride": to_value.stride(0),
        }

    def _dropout_arguments(self) -> dict[str, Any]:
        if self.dropout == 0.0:
            return dict.fromkeys(("seed", "threshold", "keep"))
        return {
            "seed": self.seed,
            "threshold": signed_threshold(self.dropout),
            "keep": 1.0 / (1.0 - self.dropout),
        }


def packed(rows: Tensor) -> Tensor:
    """Return `rows`, `(n, H, D)`, without gaps inside a row; copy only if necessary."""
    heads, feats = rows.shape[1:]
    dense = (feats <= 1 or rows.stride(2) == 1) and (heads <= 1 or rows.stride(1) == feats)
    return rows if dense else rows.contiguous()


def padded(width: int, least: int = 16) -> int:
    """Round `width` up to a power of two, by default of at least 16, as tensor cores require."""
    return max(least, 1 << (width - 1).bit_length())
