"""Figures of matplotlib, which is imported when the first figure is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colours of Okabe and Ito, and wine of Tol. Blue, orange and wine differ to readers with any colour
# vision; green and blue look alike without blue cones: such lines need another mark.
BLUE, ORANGE, GREEN, WINE = "#0072B2", "#D55E00", "#009E73", "#882255"


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches, laid out so that nothing is cut off.

    ImportError if there is no matplotlib; the message says how to install it.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            f"pictures need matplotlib ({error}): pip install graphut[plot]"
        ) from None
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def shortened(text: str, longest: int = 32) -> str:
    """Return a text, cut where it is longer than `longest`.

    Examples
    --------
    >>> shortened("window:4|global:0", 13)
    'window:4|g...'
    """
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
