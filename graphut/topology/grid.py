"""Topologies of a grid of tokens in row-major order: `Axial` and `Patch`."""

from dataclasses import dataclass

from graphut._torch import Tensor, torch
from graphut.attention.ragged import ragged_arange
from graphut.topology.base import Topology


@dataclass(frozen=True)
class Axial(Topology, minimum={"width": 1}):
    """Axial attention: attend to the tokens in the same row and in the same column of a grid.

    The tokens are a grid in row-major order with `width` columns; the last row may be incomplete.
    Axial attention (arXiv 1912.12180) along both axes in one step: `H * W * (H + W - 1)` edges on a
    grid of `H` rows and `W` columns.

    Examples
    --------
    >>> Axial(width=3).mask(6)[1].view(2, 3).int()
    tensor([[1, 1, 1],
            [0, 1, 0]], dtype=torch.int32)
    """

    name = "axial"
    stable = True
    _known_causal = False

    width: int

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        above, column = dst // self.width, dst % self.width
        below = (n_src - dst - 1).clamp(min=0) // self.width
        wide = torch.full_like(dst, self.width).minimum((n_src - above * self.width).clamp(min=0))
        row, position = ragged_arange(above + wide + below)
        above, column, wide = above[row], column[row], wide[row]
        across = above * self.width + position - above
        lower = (position - wide + 1) * self.width + column
        source = torch.where(position < above + wide, across, lower)
        return row, torch.where(position < above, position * self.width + column, source)


@dataclass(frozen=True)
class Patch(Topology, minimum={"width": 1, "radius": 0}):
    """Local attention on a grid: attend to the square patch around each token.

    The tokens are a grid as in `Axial`, and a patch has `radius` rows and columns on each side of
    the token. The local attention of stand-alone self-attention (arXiv 1906.05909) with patches of
    side `k = 2 * r + 1`: `(k * H - r * (r + 1)) * (k * W - r * (r + 1))` edges on a grid of `H`
    rows and `W` columns.

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
        longest = int(torch.maximum(n_dst, n_src).max())
        most = longest // self.width, min(self.width, longest)
        down, across = (torch.arange(-r, r + 1) for r in (min(self.radius, m) for m in most))
        column = dst[:, None] % self.width + across
        inside = ((column >= 0) & (column < self.width))[:, None].expand(-1, len(down), -1)
        source = dst[:, None, None] + down[:, None] * self.width + across
        return inside.nonzero()[:, 0], source[inside]
