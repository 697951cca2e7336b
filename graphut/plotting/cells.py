"""Heat maps with named rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from torch import Tensor

from graphut.plotting.figure import spacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.image import AxesImage

NAME_SIZE = 9.0  # points, default font size of names
_FLAT_SIZE = 6.0  # smallest size of horizontal names; below it names are rotated
_SMALLEST = 5.0  # smallest readable size; below it names are replaced by numbers


def draw_cells(axes: Axes, values: Tensor, *, numbers: bool = True) -> AxesImage:
    """Draw a heat map of values from 0 to 1, of shape `(rows, columns)`; NaN cells stay empty.

    With `numbers`, the values are written into the cells if they fit.
    """
    from matplotlib import colormaps

    axes.set_facecolor("0.94")
    colours = colormaps["cividis"].with_extremes(bad="0.94")
    image = axes.imshow(values.numpy(), cmap=colours, vmin=0, vmax=1, aspect="auto")
    width, height = spacing(axes, values.shape[1], values.shape[0])
    if numbers and width > 0.28 and height > 0.14:
        for row, column in (~values.isnan()).nonzero().tolist():
            value = float(values[row, column])
            colour = "white" if value < 0.47 else "black"
            axes.text(column, row, f"{value:.2f}", color=colour, size=7, ha="center", va="center")
    return image


def name_ticks(axis: Axis, names: Sequence[str], inches: float, *, first: int = 0) -> None:
    """Label an axis with names `inches` apart, or with numbers from `first` if they do not fit."""
    from matplotlib.axis import XAxis
    from matplotlib.ticker import MaxNLocator

    size = min(NAME_SIZE, 60 * inches)
    if size < _SMALLEST:
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axis.set_major_formatter(lambda place, _: f"{place + first:g}")
        return
    rotation = 0
    if isinstance(axis, XAxis) and (needed := widest(names, size)) > inches:
        fitting = size * inches / needed
        rotation, size = (0, fitting) if fitting > _FLAT_SIZE else (90, size)
    axis.set_ticks(range(len(names)), names, size=size, rotation=rotation, parse_math=False)


def widest(names: Sequence[str], size: float) -> float:
    """Return the column width in inches at which horizontal names do not overlap.

    `size` is the font size in points.
    """
    letters = max((len(left) + 1 + len(right) for left, right in pairwise(names)), default=0) / 2
    return 0.65 * letters * size / 72
