"""Edges drawn as arcs between nodes on a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def arcs(source: Tensor, destination: Tensor) -> Tensor:
    """Return clockwise half circles from source to destination, `(edges, points, 2)`."""
    angle = torch.linspace(torch.pi, 0, 33)
    middle = (source + destination)[:, None] / 2
    radius = (destination - source)[:, None] / 2
    return torch.stack([middle + radius * angle.cos(), radius * angle.sin()], dim=2)


def edge_style(count: int) -> dict[str, float]:
    """Return line width and opacity for a number of edges; many edges are thin and faint."""
    count = max(count, 1)
    return {
        "linewidths": max(0.25, min(1.0, 150 / count**0.75)),
        "alpha": max(0.1, min(1.0, 500 / count)),
    }


def frame_arcs(axes: Axes, nodes: int, lengths: list[int]) -> None:
    """Fit the limits of the axes to arcs of these lengths, and hide the frame."""
    from matplotlib.ticker import MaxNLocator

    above, below = max([0, *lengths]) / 2, min([0, *lengths]) / 2
    margin = 0.08 * max(1.0, above - below)
    axes.set_xlim(-0.5 - nodes / 50, nodes - 0.5 + nodes / 50)
    axes.set_ylim(below - margin, above + margin)
    axes.set_yticks([])
    axes.spines[["left", "right", "top", "bottom"]].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
