"""Training curves: loss, accuracy and steps by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphut.plotting.figure import line_styles, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Epoch = Mapping[str, Any]
_COLUMNS = 3
_LETTER = 0.09  # width of a letter in the legend, inches


def draw_training(
    runs: Mapping[str, Sequence[Epoch]], *, figure: Figure | SubFigure | None = None
) -> Figure | SubFigure:
    """Draw loss, accuracy and mean number of steps of one or more runs by epoch.

    Parameters
    ----------
    runs : mapping of str to sequence of mapping
        Name of each run, and the rows of its `metrics.jsonl`.
    figure : Figure or SubFigure, optional
        Empty figure to draw on. The default is a new figure.

    Examples
    --------
    >>> epoch = {"epoch": 1, "loss": 0.5, "accuracy": 0.9, "encoder_steps": 2.0,
    ...          "validation": {"sequence_accuracy": 0.5}}
    >>> figure = draw_training({"sort": [epoch]})
    >>> [axes.get_title() for axes in figure.axes]
    ['loss', 'accuracy of labels', 'validation: sequence accuracy', 'encoder steps']
    """
    empty = [name for name, epochs in runs.items() if not epochs]
    if empty or not runs:
        raise ValueError(f"the runs {empty} have no completed epoch" if runs else "runs is empty")
    from matplotlib.ticker import MaxNLocator

    titles = list(dict.fromkeys(title for epochs in runs.values() for title in _values(epochs[-1])))
    rows = -(-len(titles) // _COLUMNS)
    if figure is None:
        figure = new_figure(3.6 * min(len(titles), _COLUMNS), 0.4 + 2.6 * rows)
    for number, title in enumerate(titles, 1):
        axes = figure.add_subplot(rows, min(len(titles), _COLUMNS), number)
        axes.set(title=title, xlabel="epoch")
        for (name, epochs), style in zip(runs.items(), line_styles(), strict=False):
            if title in _values(epochs[-1]):
                _draw_run(axes, name, title, epochs, style)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.spines[["top", "right"]].set_visible(False)
    if len(runs) > 1:
        _add_legend(figure)
    return figure


def _add_legend(figure: Figure | SubFigure) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    # Keep the ends of long names: the paths of runs often share a prefix.
    most = int((figure.bbox.width / figure.dpi - 0.8) / _LETTER)
    labels = [name if len(name) <= most else f"...{name[3 - most :]}" for name in labels]
    columns = _COLUMNS if max(map(len, labels)) < most // 4 else 1
    legend = figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, frameon=False
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _draw_run(
    axes: Axes, name: str, title: str, epochs: Sequence[Epoch], style: tuple[str, str, str]
) -> None:
    colour, marker, line = style
    number = [epoch["epoch"] for epoch in epochs]
    values = [_values(epoch)[title] for epoch in epochs]
    # matplotlib leaves labels that begin with _ out of the legend
    label = f" {name}" if name.startswith("_") else name
    [drawn] = axes.plot(number, values, marker + line, color=colour, markersize=3, label=label)
    drawn.set_clip_on(False)  # do not cut markers at the edge of the axes


def _values(epoch: Epoch) -> dict[str, float]:
    """Return the values to draw for an epoch, by the title of their panel."""
    measure, found = next(iter(epoch["validation"].items()))
    steps = {
        name.replace("_steps", " steps"): value
        for name, value in epoch.items()
        if name.endswith("_steps")
    }
    return {
        "loss": epoch["loss"],
        "accuracy of labels": epoch["accuracy"],
        f"validation: {measure.replace('_', ' ')}": found,
        **steps,
    }
