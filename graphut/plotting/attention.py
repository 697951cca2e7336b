"""Pictures of attention weights in each step and head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphut.plotting.figure import (
    BLUE,
    NAME_SIZE,
    draw_cells,
    name_ticks,
    new_figure,
    shortened,
    spacing,
    widest,
)

if TYPE_CHECKING:
    from matplotlib.animation import FuncAnimation
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

MAX_PANELS = 128
_SHORT = 12  # most tokens for a picture with lines
_SHORT_NAME = 8  # most letters of a token in a picture with lines
_LONGEST = 24


def draw_attention(
    weights: Tensor,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    *,
    first: int = 1,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Draw attention weights: one row of panels per step, one column per head.

    For a short sentence, lines run from the keys (bottom) to the queries (top), and darker lines
    are larger weights. For many tokens or long names each panel is a heat map with one row per
    query. Halted queries are grey and have no weights.

    Parameters
    ----------
    weights : Tensor
        `(steps, heads, queries, keys)`, for example `ponder.attention.dense()`; at most 128 panels.
    queries : sequence of str
        Names of the queries.
    keys : sequence of str, optional
        Names of the keys; the default is `queries`.
    first : int
        The step of the first row.
    figure : Figure or SubFigure, optional
        Empty figure to draw on. The default is a new figure.

    Examples
    --------
    >>> weights = torch.tensor([[[[0.9, 0.1], [0.5, 0.5]], [[1.0, 0.0], [0.2, 0.8]]]])
    >>> figure = draw_attention(weights, ["to", "be"])
    >>> [axes.get_title() for axes in figure.axes]
    ['head 1', 'head 2']
    """
    keys = queries if keys is None else keys
    if weights.dim() != 4 or weights.shape[2:] != (len(queries), len(keys)):
        raise ValueError(
            f"weights must be (steps, heads, {len(queries)}, {len(keys)}) to match the names; "
            f"got {tuple(weights.shape)}"
        )
    steps, heads = weights.shape[:2]
    if steps * heads > MAX_PANELS:
        raise ValueError(
            f"{steps} steps of {heads} heads are more than {MAX_PANELS} panels: pass some of the "
            "steps, weights[:8], or the mean over heads, weights.mean(1, keepdim=True)"
        )
    weights = weights.detach().float().cpu()
    named = [[shortened(str(name), _LONGEST) for name in names] for names in (queries, keys)]
    if figure is None:
        figure = new_figure(*attention_size(weights, queries, keys))
    panels = figure.subplots(steps, heads, squeeze=False)
    has_lines = _has_lines(queries, keys)
    draw = _draw_lines if has_lines else _draw_matrix
    for step, row in enumerate(panels):
        for head, axes in enumerate(row):
            draw(axes, weights[step, head], named[0], named[1])
            axes.set_title(f"head {head + 1}" if step == 0 and heads > 1 else "", size=9)
            axes.set_ylabel(f"step {step + first}" if head == 0 else "", size=9)
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0)
            if not has_lines:
                axes.label_outer()
    if not has_lines:
        bar = figure.colorbar(panels[0, 0].images[0], ax=panels, pad=0.01, aspect=30)
        bar.ax.tick_params(labelsize=7)
    return figure


def animate_attention(
    weights: Tensor, queries: Sequence[str], keys: Sequence[str] | None = None
) -> FuncAnimation:
    """Return an animation of attention weights with one frame per step; see `draw_attention`.

    `animation.save("attention.gif", writer="pillow")` saves the animation.
    """
    figure = new_figure(*attention_size(weights[:1], queries, queries if keys is None else keys))
    from matplotlib.animation import FuncAnimation

    def draw_frame(step: int) -> None:
        figure.clear()
        draw_attention(weights[step : step + 1], queries, keys, first=step + 1, figure=figure)

    return FuncAnimation(figure, draw_frame, len(weights), interval=800)


def attention_size(
    weights: Tensor, queries: Sequence[str], keys: Sequence[str]
) -> tuple[float, float]:
    """Return width and height, in inches, of the picture that `draw_attention` draws."""
    steps, heads = weights.shape[:2]
    longest = max(len(queries), len(keys))
    if _has_lines(queries, keys):
        names = [str(name) for name in (*queries, *keys)]
        room = max(widest([name, name], NAME_SIZE) for name in names)  # for rotated names
        return 0.5 + heads * max(1.0, 0.25 * longest), 0.4 + (0.65 + 2 * room) * steps
    side = min(max(1.6, 0.15 * longest), 4.0)
    return 1.4 + heads * side, 0.9 + steps * side


def _has_lines(*sides: Sequence[str]) -> bool:
    return all(len(names) <= _SHORT for names in sides) and all(
        len(str(name)) <= _SHORT_NAME for names in sides for name in names
    )


def _draw_lines(axes: Axes, weights: Tensor, queries: list[str], keys: list[str]) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    query, key = weights.nonzero(as_tuple=True)
    order = weights[query, key].abs().argsort()  # the darkest lines are drawn last, on top
    query, key = query[order], key[order]
    ends = torch.stack([key, torch.zeros_like(key), query, torch.ones_like(key)], 1)
    shades = weights[query, key].nan_to_num().abs().clamp_max(1.0).tolist()
    colours = [to_rgba(BLUE, shade) for shade in shades]
    widths = [0.5 + 2 * shade for shade in shades]
    lines = list(ends.view(-1, 2, 2).numpy())
    axes.add_collection(LineCollection(lines, colors=colours, linewidths=widths))
    longest = max(len(queries), len(keys))
    axes.set(xlim=(-0.6, longest - 0.4), ylim=(-0.05, 1.05), yticks=[])
    above = axes.secondary_xaxis("top")
    above.spines[:].set_visible(False)
    above.tick_params(length=0)
    inches, _ = spacing(axes, longest, 1)
    name_ticks(axes.xaxis, keys, inches)
    name_ticks(above.xaxis, queries, inches)
    halted = (weights.sum(1) == 0).tolist()
    for label, is_grey in zip(above.get_xticklabels(), halted, strict=True):
        label.set_color("0.75" if is_grey else "black")


def _draw_matrix(axes: Axes, weights: Tensor, queries: list[str], keys: list[str]) -> None:
    draw_cells(axes, weights.masked_fill(weights == 0, torch.nan), numbers=False)
    width, height = spacing(axes, len(keys), len(queries))
    name_ticks(axes.xaxis, keys, width)
    name_ticks(axes.yaxis, queries, height)
