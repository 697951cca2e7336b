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
_LOW, _HIGH = 0.1, 0.9  # quantiles of the band of steps


def draw_training(
    runs: Mapping[str, Sequence[Epoch]], *, figure: Figure | SubFigure | None = None
) -> Figure | SubFigure:
    """Draw loss, accuracy and steps of one or more runs by epoch.

    The line of the steps is their mean over nodes, and the band around it covers the 10% to 90%
    quantiles.

    Parameters
    ----------
    runs : mapping of str to sequence of mapping
        Name of each run, and the rows of its `metrics.jsonl`.
    figure : Figure or SubFigure, optional
        Empty figure to draw on. The default is a new figure.

    Examples
    --------
    >>> epochs = [
    ...     {"epoch": n, "loss": 1 / n, "accuracy": 1 - 0.1 / n, "encoder_steps": 2.0,
    ...      "validation": {"sequence_accuracy": 0.5}}
    ...     for n in (1, 2, 3)
    ... ]
    >>> figure = draw_training({"sort": epochs})
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
        if axes.collections:
            axes.set_ylabel("mean; band: 80% of nodes")
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
    part = title.removesuffix(" steps")
    shares = [epoch.get("active", {}).get(part) for epoch in epochs]
    if part != title and all(shares):
        few, many = ([_quantile(share, q) for share in shares] for q in (_LOW, _HIGH))
        axes.fill_between(number, few, many, color=colour, alpha=0.15, linewidth=0)


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


def _quantile(active: Sequence[float], share: float) -> int:
    """Return a quantile of the number of steps, where `share` is from 0 to 1.

    `active` holds the share of nodes that are active in step 1, 2, ...

    Examples
    --------
    >>> [_quantile([1.0, 0.75, 0.25], share) for share in (0.1, 0.5, 0.9)]
    [1, 2, 3]
    """
    return 1 + sum(round(here + share - 1, 9) > 0 for here in active[1:])
