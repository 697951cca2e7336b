"""Ponder maps: the number of steps and the halting probabilities of each token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphut.models.checked_config import cut
from graphut.nn.ponder import STOPPED, STOPPED_MEANING
from graphut.plotting.figure import ORANGE, draw_cells, name_ticks, new_figure, spacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_LONGEST = 40  # letters of a name


def draw_ponder(
    names: Sequence[str],
    steps: Sequence[int] | Tensor,
    halting: Tensor | None = None,
    *,
    stopped: Tensor | None = None,
    axes: Axes | None = None,
) -> Figure | SubFigure:
    """Draw the ponder time of tokens: one cell per step, followed by the number of steps.

    Each token is a column, with steps from top to bottom (arXiv 1807.03819, Figs. 5 to 8, has the
    tokens in rows).

    Parameters
    ----------
    names : sequence of str
        Names of the `N` tokens.
    steps : sequence of int or Tensor
        `(N,)`, number of steps of each token, for example `ponder.steps`.
    halting : Tensor, optional
        `(steps, N)`, halting probabilities that set the colour of the cells, for example
        `ponder.halting`. By default the colour shows the number of steps of the token.
    stopped : Tensor, optional
        `(N,)` bool, tokens that the limit on the number of steps stopped, for example
        `ponder.stopped`. Their number of steps has a + and another colour.
    axes : Axes, optional
        Axes to draw on. The function returns their figure.

    Examples
    --------
    >>> figure = draw_ponder(["sort", "d", "a"], [1, 3, 2])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['1', '3', '2']
    """
    steps = torch.as_tensor(steps).cpu()
    shapes = [tuple(x.shape) for x in (steps, stopped) if x is not None]
    if len(names) == 0 or {*shapes} != {(len(names),)}:
        got = " and ".join(map(str, shapes))
        raise ValueError(f"steps and stopped need an entry for each of 1 or more names; got {got}")
    values = _shades(steps, halting)
    marked = [False] * len(names) if stopped is None else stopped.tolist()
    names = [cut(str(name), _LONGEST) for name in names]
    most = len(values)
    if axes is None:
        axes = new_figure(*ponder_size(names, most)).add_subplot()
    width, height = spacing(axes, len(names), most + 1)
    image = draw_cells(axes, values, numbers=halting is not None)
    axes.set(ylim=(most + 0.5, -0.5), ylabel="step")
    axes.xaxis.tick_top()
    name_ticks(axes.xaxis, names, width)
    name_ticks(axes.yaxis, [str(step) for step in range(1, most + 1)], height, first=1)
    if min(width, height) > 0.12:
        for place, count in enumerate(steps.tolist()):  # below its last cell
            text, colour = f"{count}{STOPPED * marked[place]}", ORANGE if marked[place] else "black"
            axes.text(
                place, count, text, size=8, weight="bold", color=colour, ha="center", va="center"
            )
    if any(marked):
        axes.set_xlabel(f"{STOPPED} {STOPPED_MEANING}", size=8, color=ORANGE)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if halting is not None:
        bar = axes.figure.colorbar(image, ax=axes, pad=0.02, aspect=12)
        bar.set_label("halting\nprobability", size=8)
        bar.ax.tick_params(labelsize=7)
    return axes.figure


def ponder_size(names: Sequence[str], most: int) -> tuple[float, float]:
    """Return width and height, in inches, of a ponder map whose tokens take up to `most` steps."""
    longest = min(max(map(len, names)), _LONGEST)
    room = 0.08 * max(longest - 10, 0)  # of long names, which are rotated
    return min(max(1.8 + 0.38 * len(names), 4.0), 16.0), min(1.1 + 0.28 * most, 10.0) + room


def _shades(steps: Tensor, halting: Tensor | None) -> Tensor:
    """Return the values that colour the cells, `(steps, N)`; NaN where the token has halted."""
    most = int(steps.max())
    step = torch.arange(1, most + 1)[:, None]
    if halting is None:
        values = (steps / most).expand(most, -1)
    elif halting.shape[0] < most or halting.shape[1:] != steps.shape:
        raise ValueError(
            f"halting must be ({most} or more, {len(steps)}), got {tuple(halting.shape)}"
        )
    else:
        values = halting[:most].detach().float().cpu()
    return values.masked_fill(step > steps, torch.nan)
