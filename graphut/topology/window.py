"""Complete, causal and window topologies."""

from __future__ import annotations

from dataclasses import dataclass

from graphut._torch import Tensor, torch
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
    >>> Complete().layout([2], src_lengths=[5]).num_edges
    10
    """

    name = "complete"
    stable = True
    _known_causal = False

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Interval:
        """Return the interval of all sources of the sentence."""
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
        """Return the interval of the sources up to the destination."""
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

    @property
    def _known_causal(self) -> bool:
        return self.radius == 0

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> Interval:
        """Return the interval of the sources within the radius."""
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

    @property
    def _known_causal(self) -> bool:
        return self.radius == 0

    def in_edges(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges from the sources within `radius` steps of `dilation`."""
        longest = int(torch.maximum(n_dst, n_src).max())
        radius = min(self.radius, longest // self.dilation)
        steps = torch.arange(-radius, radius + 1) * min(self.dilation, longest)
        row = torch.arange(len(dst)).repeat_interleave(len(steps))
        return row, (dst[:, None] + steps).flatten()
