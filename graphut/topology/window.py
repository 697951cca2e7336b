"""Every token attends to those within a radius."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from graphut.topology.base import Topology


@dataclass(frozen=True)
class Window(Topology):
    """Destination `i` sees the sources `j` with `abs(i - j) <= radius`.

    Parameters
    ----------
    radius : int
        How many tokens it sees on either side, besides its own position; not negative.

    Raises
    ------
    TypeError, ValueError
        If `radius` is not an integer, or negative.

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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius < 0:
            raise ValueError(f"window: radius must not be negative, got {self.radius}")

    def interval(self, dst: Tensor, n_dst: Tensor, n_src: Tensor) -> tuple[Tensor, Tensor]:
        return dst - self.radius, dst + self.radius + 1
