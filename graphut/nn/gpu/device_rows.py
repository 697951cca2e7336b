"""Packed rows of active nodes whose number only the device knows."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphut.nn.frontier import ActiveRows, HaltSplit
from graphut.nn.gpu.async_checks import AsyncFiniteChecks
from graphut.nn.gpu.context import existing
from graphut.nn.noise import Noise


class DeviceRows(ActiveRows):
    """Packed rows that begin with the active nodes and end with rows of no node.

    The last rows have the id `N_src`, which no node has and no edge names. They hold finite
    numbers, and no result depends on them. The host takes the count of an earlier step, which
    `checks` has copied meanwhile, as an upper bound, because the frontier only shrinks.
    """

    nodes: Tensor  # (A,) ids of active nodes, sorted, and then `N_src`
    count: Tensor  # number of active nodes, on the device

    def __init__(
        self,
        feat: Tensor,
        encodings: Tensor | None,
        num_dst: int,
        checks: AsyncFiniteChecks,
        noise: Noise | None = None,
    ) -> None:
        self._missing = feat.shape[0]
        self._checks = checks
        self.count = torch.full((), num_dst, device=feat.device)
        encodings = None if encodings is None else _padded(encodings)
        super().__init__(_padded(feat), encodings, num_dst, noise)

    @property
    def existing_nodes(self) -> Tensor:
        """Ids of the active nodes; padding rows get an arbitrary valid id."""
        return existing(self.nodes, self._missing)

    def all_states(self, num_src: int) -> Tensor:
        """Return the rows of all nodes, and one row of no node."""
        return super().all_states(num_src + 1)

    def advance(self, states: Tensor, halts: Tensor) -> HaltSplit:
        """Store the new states of the frontier's rows, and remove the rows that halt."""
        active = self.nodes < self._missing
        halting_nodes = self.nodes.masked_fill(~(active & halts), self._missing)
        order, self.count = active_first(active & ~halts)
        self.num_active = self._checks.bound(self.count)
        rows = order[: self.num_active]
        self._advance(states, rows)
        row = torch.arange(len(rows), device=rows.device)
        self.nodes = self.nodes.masked_fill(row >= self.count, self._missing)
        return HaltSplit(halting_nodes, None, rows)


def active_first(active: Tensor) -> tuple[Tensor, Tensor]:
    """Return the row numbers of a mask with the True rows first, and the number of True rows."""
    row = torch.arange(len(active), device=active.device)
    ahead = active.cumsum(0)
    count = ahead[-1]
    target = torch.where(active, ahead - 1, count + row - ahead)
    return torch.empty_like(row).scatter_(0, target, row), count


def _padded(rows: Tensor) -> Tensor:
    return pad(rows, (0, 0, 0, 1))
