"""Topologies of a grid of tokens in row-major order: `Axial` and `Patch`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from graphut.attention.ragged import ragged_arange
from graphut.topology.base import Topology
from graphut.topology.window import count_pairs


@dataclass(frozen=True)
class Axial(Topology, minimum={"width": 1}):
    """Axial attention: attend to the tokens in the same row and in the same column of a grid.

    The tokens are a grid in row-major order. Axial attention (arXiv 1912.12180) along both axes in
    one step: `H * W * (H + W - 1)` edges on a grid of `H` rows and `W` columns. The last row may be
    incomplete.

    Parameters
    ----------
    width : int
        Number of tokens in a row, at least 1.

    Examples
    --------
    >>> Axial(width=3).mask(6)[1].view(2, 3).int()
    tensor([[1, 1, 1],
            [0, 1, 0]], dtype=torch.int32)
    """

    name = "axial"
    stable = True

    width: int

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return the column above, the whole row, and the column below, in this order."""
        above, column = dst // self.width, dst % self.width
        below = (n_src - dst - 1).clamp(min=0) // self.width
        wide = torch.full_like(dst, self.width).minimum((n_src - above * self.width).clamp(min=0))
        row, position = ragged_arange(above + wide + below)
        above, column, wide = above[row], column[row], wide[row]
        across = above * self.width + position - above
        lower = (position - wide + 1) * self.width + column
        source = torch.where(position < above + wide, across, lower)
        return row, torch.where(position < above, position * self.width + column, source)

    def _count_edges(self, n: int) -> int:
        rows, rest = divmod(n, self.width)
        across = rows * self.width**2 + rest**2
        down = rest * (rows + 1) ** 2 + (self.width - rest) * rows**2
        return across + down - n


@dataclass(frozen=True)
class Patch(Topology, minimum={"width": 1, "radius": 0}):
    """Local attention on a grid: attend to the square patch around each token.

    The tokens are a grid in row-major order. The local attention of stand-alone self-attention
    (arXiv 1906.05909) with patches of side `k = 2 * r + 1`: `(k * H - r * (r + 1)) *
    (k * W - r * (r + 1))` edges on a grid of `H` rows and `W` columns. The last row may be
    incomplete. On a grid smaller than the patch the topology is complete.

    Parameters
    ----------
    width : int
        Number of tokens in a row, at least 1.
    radius : int
        Number of rows and columns on each side of the token, `r`, at least 0.

    Examples
    --------
    >>> Patch(width=3, radius=1).mask(6)[0].view(2, 3).int()
    tensor([[1, 1, 0],
            [1, 1, 0]], dtype=torch.int32)
    """

    name = "patch"
    stable = True

    width: int
    radius: int

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sources within `radius` rows and columns."""
        longest = int(torch.maximum(n_dst, n_src).max())
        down = _offsets(self.radius, longest // self.width)
        across = _offsets(self.radius, min(self.width, longest))
        column = dst[:, None] % self.width + across
        inside = ((column >= 0) & (column < self.width))[:, None].expand(-1, len(down), -1)
        source = dst[:, None, None] + down[:, None] * self.width + across
        return inside.nonzero()[:, 0], source[inside]

    def _count_edges(self, n: int) -> int:
        rows, rest = divmod(n, self.width)
        pairs = partial(count_pairs, radius=self.radius)
        between = min(rows, self.radius) * pairs(rest, self.width)
        return pairs(rows, rows) * pairs(self.width, self.width) + pairs(rest, rest) + 2 * between


def _offsets(radius: int, most: int) -> Tensor:
    radius = min(radius, most)
    return torch.arange(-radius, radius + 1)
