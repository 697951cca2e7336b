"""Figures of matplotlib, which is imported when the first figure is made."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from graphut._files import explain_write_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Colours of Okabe and Ito, and wine of Tol. Blue, orange and wine differ to readers with any colour
# vision; green and blue look alike without blue cones: such lines need another mark.
BLUE, ORANGE, GREEN, WINE = "#0072B2", "#D55E00", "#009E73", "#882255"


def looks() -> Iterator[tuple[str, str, str]]:
    """Yield colour, mark and kind of line for one series after another, sixteen and again."""
    colours = (BLUE, ORANGE, WINE, GREEN)
    marks = (("o", "-"), ("s", "--"), ("^", ":"), ("D", "-."))
    return cycle([(colours[i], *marks[(i + turn) % 4]) for turn in range(4) for i in range(4)])


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches, laid out so that nothing is cut off.

    ImportError if there is no matplotlib; the message says how to install it.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            f'pictures need matplotlib ({error}): pip install "graphut[plot]"'
        ) from None
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def check_picture_path(path: str | Path, *others: str) -> None:
    """Raise an error if a picture cannot be written into a path, before it is drawn.

    It is `ValueError` if matplotlib knows no picture with its ending, nor `others`, and
    `FileNotFoundError` if its folder is not there.
    """
    ending = Path(path).suffix[1:].lower()
    known = dict.fromkeys([*new_figure(1, 1).canvas.get_supported_filetypes(), *others])
    if ending not in known:
        raise ValueError(
            f"cannot draw into {path}: {ending!r} is not supported; let it end with "
            f"{', '.join(f'.{kind}' for kind in known)}"
        )
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"cannot draw into {path}: make its folder, or name another")


def save_figure(figure: Figure | SubFigure, path: str | Path) -> None:
    """Write a figure into a file; the ending of its name says what kind of picture it is."""
    check_picture_path(path)
    with explain_write_errors(path):
        figure.figure.savefig(path)


def spacing(axes: Axes, columns: int, rows: int) -> tuple[float, float]:
    """Return about how many inches a column is wide and a row is high on axes with so many."""
    dpi = axes.figure.dpi
    return axes.bbox.width / dpi / max(columns, 1), axes.bbox.height / dpi / max(rows, 1)


def shortened(text: str, longest: int = 32) -> str:
    """Return a text, cut where it is longer than `longest`.

    Examples
    --------
    >>> shortened("window:4|global:0", 13)
    'window:4|g...'
    """
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
