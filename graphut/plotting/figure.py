"""Helpers for figures and heat maps; matplotlib is imported when a figure is created."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from graphut._files import explain_write_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.image import AxesImage
    from torch import Tensor

# Blue, vermilion and green of Okabe and Ito, and wine of Tol. Blue, orange and wine can be told
# apart with any colour vision; green and blue cannot with tritanopia, so their markers differ too.
BLUE, ORANGE, GREEN, WINE = "#0072B2", "#D55E00", "#009E73", "#882255"

NAME_SIZE = 9.0  # points, default font size of names
_FLAT_SIZE = 6.0  # smallest size of horizontal names; below it names are rotated
_SMALLEST = 5.0  # smallest readable size; below it names are replaced by numbers


def line_styles() -> Iterator[tuple[str, str, str]]:
    """Yield a colour, a marker and a line style for each series; after 16 they repeat."""
    colours = (BLUE, ORANGE, WINE, GREEN)
    marks = (("o", "-"), ("s", "--"), ("^", ":"), ("D", "-."))
    return cycle([(colours[i], *marks[(i + turn) % 4]) for turn in range(4) for i in range(4)])


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure with constrained layout; the size is in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"pictures need matplotlib ({error}): pip install matplotlib") from None

    class ShownFigure(Figure):
        def _repr_png_(self) -> bytes:  # a notebook shows it, also without %matplotlib inline
            self.savefig(file := BytesIO(), format="png")
            return file.getvalue()

    return ShownFigure(figsize=(width, height), dpi=150, layout="constrained")


def check_picture_path(path: str | Path, *others: str) -> None:
    """Raise an error if the folder of a file does not exist, or its suffix is not supported."""
    ending = Path(path).suffix[1:].lower()
    endings = dict.fromkeys([*new_figure(1, 1).canvas.get_supported_filetypes(), *others])
    if ending not in endings:
        raise ValueError(
            f"cannot draw into {path}: {ending!r} is not supported; choose one of "
            f"{', '.join(f'.{kind}' for kind in endings)}"
        )
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"cannot draw into {path}: its folder does not exist")


def save_figure(figure: Figure | SubFigure, path: str | Path) -> None:
    """Write a figure to a file; the suffix of the file name selects the format."""
    check_picture_path(path)
    with explain_write_errors(path):
        figure.figure.savefig(path)


def edge_style(count: int) -> dict[str, float]:
    """Return matplotlib options for `count` edges: the more edges, the thinner and fainter."""
    count = max(count, 1)
    return {
        "linewidths": max(0.25, min(1.0, 150 / count**0.75)),
        "alpha": max(0.1, min(1.0, 500 / count)),
    }


def spacing(axes: Axes, columns: int, rows: int) -> tuple[float, float]:
    """Return the approximate width of columns and height of rows in the axes, in inches."""
    dpi = axes.figure.dpi
    return axes.bbox.width / dpi / max(columns, 1), axes.bbox.height / dpi / max(rows, 1)


def draw_cells(axes: Axes, values: Tensor, *, numbers: bool = True) -> AxesImage:
    """Draw a heat map of values from 0 to 1, `(rows, columns)`, with `numbers` if they fit."""
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

    size = min(NAME_SIZE, 60 * inches)
    if size < _SMALLEST:
        return number_ticks(axis, first=first)
    rotation = 0
    letters = max((len(left) + 1 + len(right) for left, right in pairwise(names)), default=0) / 2
    if isinstance(axis, XAxis) and (needed := 0.65 * letters * size / 72) > inches:
        fitting = size * inches / needed  # neighbours do not overlap
        rotation, size = (0, fitting) if fitting > _FLAT_SIZE else (90, size)
    axis.set_ticks(range(len(names)), names, size=size, rotation=rotation, parse_math=False)


def number_ticks(*axes: Axis, first: int = 0) -> None:
    """Label axes with whole numbers; `first` is the number at place 0."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if first:
            axis.set_major_formatter(lambda place, _: f"{place + first:g}")
