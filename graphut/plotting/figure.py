"""Helpers for figures; matplotlib is imported when the first figure is created."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphut._files import explain_write_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Blue, vermilion and green of Okabe and Ito, and wine of Tol. Blue, orange and wine can be told
# apart with any colour vision; green and blue cannot with tritanopia, so their markers differ too.
BLUE, ORANGE, GREEN, WINE = "#0072B2", "#D55E00", "#009E73", "#882255"


def line_styles() -> Iterator[tuple[str, str, str]]:
    """Yield colour, marker and line style of successive series; the 16 combinations repeat."""
    colours = (BLUE, ORANGE, WINE, GREEN)
    marks = (("o", "-"), ("s", "--"), ("^", ":"), ("D", "-."))
    return cycle([(colours[i], *marks[(i + turn) % 4]) for turn in range(4) for i in range(4)])


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure with constrained layout; the size is in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            f'pictures need matplotlib ({error}): pip install "graphut[plot]"'
        ) from None
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def check_picture_path(path: str | Path, *others: str) -> None:
    """Check that matplotlib can draw into a file, or that its suffix is one of the `others`."""
    ending = Path(path).suffix[1:].lower()
    known = dict.fromkeys([*new_figure(1, 1).canvas.get_supported_filetypes(), *others])
    if ending not in known:
        raise ValueError(
            f"cannot draw into {path}: {ending!r} is not supported; choose one of "
            f"{', '.join(f'.{kind}' for kind in known)}"
        )
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"cannot draw into {path}: its folder does not exist")


def save_figure(figure: Figure | SubFigure, path: str | Path) -> None:
    """Write a figure to a file; the suffix of the file name selects the format."""
    check_picture_path(path)
    with explain_write_errors(path):
        figure.figure.savefig(path)


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


def spacing(axes: Axes, columns: int, rows: int) -> tuple[float, float]:
    """Return the approximate width of a column and height of a row of the axes, in inches."""
    dpi = axes.figure.dpi
    return axes.bbox.width / dpi / max(columns, 1), axes.bbox.height / dpi / max(rows, 1)


def shortened(text: str, longest: int = 32) -> str:
    """Shorten a text to at most `longest` characters."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
