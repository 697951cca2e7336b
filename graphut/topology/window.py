"""Complete, causal, window, strided and block-wise topologies, also on a grid of tokens."""

from dataclasses import dataclass

from graphut._torch import Tensor, torch
from graphut.attention.ragged import ragged_arange
from graphut.topology.base import Topology
from graphut.topology.batch import Interval


@dataclass(frozen=True)
class Complete(Topology):
    """Complete graph: every destination attends to every source of its sentence.

    The usual self-attention of an encoder, and the usual cross-attention: `n * m` edges for `n`
    destinations and `m` sources.

    Examples
    --------
    >>> Complete().graph([2, 3]).num_edges()
    13
    """

    name = "complete"
    stable = True

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Interval:
        return torch.zeros_like(dst), n_src


@dataclass(frozen=True)
class Causal(Topology):
    """Causal graph: destination `i` attends to the sources `j <= i`.

    The usual self-attention of a decoder: `n * (n + 1) / 2` edges. The method `causal()` of other
    topologies returns their intersection with this one.

    Examples
    --------
    >>> Causal().mask(3).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """

    name = "causal"
    stable = True
    _known_causal = True

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Interval:
        return torch.zeros_like(dst), dst + 1


@dataclass(frozen=True)
class Window(Topology, minimum={"radius": 0}):
    """Sliding window: destination `i` attends to the sources `j` with `abs(i - j) <= radius`.

    There are `n * (2w + 1) - w * (w + 1)` edges for a radius `w < n`. In a shorter sentence all
    tokens attend to each other, as in `Complete()`.

    Examples
    --------
    >>> Window(1).mask(4).int()
    tensor([[1, 1, 0, 0],
            [1, 1, 1, 0],
            [0, 1, 1, 1],
            [0, 0, 1, 1]], dtype=torch.int32)
    """

    name = "window"
    stable = True

    radius: int

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Interval:
        return dst - self.radius, dst + self.radius + 1


@dataclass(frozen=True)
class Dilated(Topology, minimum={"radius": 0, "dilation": 1}):
    """Dilated window: attend to the sources `i + t * dilation` for `abs(t) <= radius`.

    The dilated sliding window of Longformer (arXiv 2004.05150): `n * (2w + 1) - d * w * (w + 1)`
    edges for a radius `w` and a dilation `d` with `w * d < n`.

    Examples
    --------
    >>> Dilated(1, dilation=2).mask(4)[2].int()  # the sources of destination 2
    tensor([1, 0, 1, 0], dtype=torch.int32)
    """

    name = "dilated"
    stable = True

    radius: int
    dilation: int

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        longest = int(torch.maximum(n_dst, n_src).max())
        radius = min(self.radius, longest // self.dilation)
        steps = torch.arange(-radius, radius + 1) * min(self.dilation, longest)
        row = torch.arange(len(dst)).repeat_interleave(len(steps))
        return row, (dst[:, None] + steps).flatten()


@dataclass(frozen=True)
class Strided(Topology, minimum={"stride": 1}):
    """Strided attention: `j -> i` if `0 <= i - j <= stride` or `stride` divides `i - j >= 0`.

    The patterns of both heads of strided attention (Sparse Transformers, arXiv 1904.10509, section
    4.3) in one causal graph of about `n * stride + n^2 / (2 * stride)` edges.

    Examples
    --------
    >>> Strided(2).mask(6)[5].int()  # the sources of destination 5
    tensor([0, 1, 0, 1, 1, 1], dtype=torch.int32)
    """

    name = "strided"
    stable = True

    stride: int

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        strides = dst // self.stride
        far = (strides - 1).clamp(min=0)
        first = (dst - self.stride).clamp(min=0)
        row, position = ragged_arange(far + dst + 1 - first)
        distant = dst[row] - (strides[row] - position) * self.stride
        near = first[row] + position - far[row]
        return row, torch.where(position < far[row], distant, near)


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
