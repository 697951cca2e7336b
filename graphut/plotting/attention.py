"""Pictures of attention weights in each step and head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphut.models.checked_config import cut
from graphut.nn.ponder import AttentionRecord
from graphut.plotting.figure import draw_cells, name_ticks, new_figure, spacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

_LONGEST = 24


def draw_attention(
    weights: Tensor | AttentionRecord,
    queries: Sequence[str],
    keys: Sequence[str] | None = None,
    *,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Draw attention weights as heat maps: a row of panels per step, and a column per head.

    A panel has a row per query and a column per key. A query that has halted has no weights.

    Parameters
    ----------
    weights : Tensor or AttentionRecord
        `(steps, heads, queries, keys)`; or `ponder.attention`, whose first graph is drawn.
    queries : sequence of str
        Names of the queries.
    keys : sequence of str, optional
        Names of the keys; the default is `queries`. A decoder reads `<bos>` and all but the last
        of the tokens that it writes.
    figure : Figure or SubFigure, optional
        Empty figure to draw on. The default is a new figure.

    Examples
    --------
    >>> weights = torch.tensor([[[[0.9, 0.1], [0.5, 0.5]], [[1.0, 0.0], [0.2, 0.8]]]])
    >>> figure = draw_attention(weights, ["to", "be"])
    >>> [axes.get_title() for axes in figure.axes]
    ['head 1', 'head 2', '']
    """
    keys = queries if keys is None else keys
    weights = weights.dense() if isinstance(weights, AttentionRecord) else weights
    if weights.dim() != 4 or weights.shape[2:] != (len(queries), len(keys)):
        raise ValueError(
            f"weights must be (steps, heads, {len(queries)}, {len(keys)}) to match the names; "
            f"got {tuple(weights.shape)}"
        )
    steps, heads = weights.shape[:2]
    weights = weights.detach().float().cpu()
    weights = weights.masked_fill(weights == 0, torch.nan)
    named_queries, named_keys = ([cut(str(x), _LONGEST) for x in each] for each in (queries, keys))
    if figure is None:
        figure = new_figure(*attention_size(weights, queries, keys))
    panels = figure.subplots(steps, heads, squeeze=False)
    for step, row in enumerate(panels):
        for head, axes in enumerate(row):
            draw_cells(axes, weights[step, head], numbers=False)
            width, height = spacing(axes, len(keys), len(queries))
            name_ticks(axes.xaxis, named_keys, width)
            name_ticks(axes.yaxis, named_queries, height)
            axes.set_title(f"head {head + 1}" if step == 0 and heads > 1 else "", size=9)
            axes.set_ylabel(f"step {step + 1}" if head == 0 else "", size=9)
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0)
            axes.label_outer()
    bar = figure.colorbar(panels[0, 0].images[0], ax=panels, pad=0.01, aspect=30)
    bar.ax.tick_params(labelsize=7)
    return figure


def attention_size(
    weights: Tensor, queries: Sequence[str], keys: Sequence[str]
) -> tuple[float, float]:
    """Return width and height, in inches, of the picture that `draw_attention` draws."""
    steps, heads = weights.shape[:2]
    side = min(max(1.6, 0.15 * max(len(queries), len(keys))), 4.0)
    return 1.4 + heads * side, 0.9 + steps * side
