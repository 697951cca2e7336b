"""Pictures of training: loss, accuracy and steps, epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphut.plotting.figure import looks, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Epoch = Mapping[str, Any]
_COLUMNS = 3
_LETTER = 0.09  # inches, of a letter in the legend
_TENTH = 0.1


def draw_training(
    runs: Mapping[str, Sequence[Epoch]], *, figure: Figure | SubFigure | None = None
) -> Figure | SubFigure:
    """Draw the loss, the accuracy and the steps of one run or several, epoch by epoch.

    Mean steps are a line, and the nodes between the tenth that takes the fewest steps and the
    tenth that takes the most are a band around it.

    Parameters
    ----------
    runs : mapping of str to sequence of mapping
        For each run its name, and the lines of its `metrics.jsonl`.
    figure : Figure or SubFigure, optional
        An empty one to draw on, and to return.

    Raises
    ------
    ValueError
        If there is no run, or one has no epoch.

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
        raise ValueError(f"no epoch is done yet of the runs {empty}" if runs else "there is no run")
    from matplotlib.ticker import MaxNLocator

    titles = list(dict.fromkeys(title for epochs in runs.values() for title in _values(epochs[-1])))
    rows = -(-len(titles) // _COLUMNS)
    if figure is None:
        figure = new_figure(3.6 * min(len(titles), _COLUMNS), 0.4 + 2.6 * rows)
    for number, title in enumerate(titles, 1):
        axes = figure.add_subplot(rows, min(len(titles), _COLUMNS), number)
        axes.set(title=title, xlabel="epoch")
        for (name, epochs), look in zip(runs.items(), looks(), strict=False):
            if title in _values(epochs[-1]):
                _draw_run(axes, name, title, epochs, look)
        axes.set_ylim(bottom=0)
        if axes.collections:
            axes.set_ylabel("mean; band: 80% of nodes")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.spines[["top", "right"]].set_visible(False)
    if len(runs) > 1:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        inches = figure.bbox.width / figure.dpi
        # The ends of names differ, as those of the paths of runs.
        most = int((inches - 0.8) / _LETTER)
        labels = [name if len(name) <= most else f"...{name[3 - most :]}" for name in labels]
        columns = int(inches / (0.8 + _LETTER * max(map(len, labels))))
        columns = max(1, min(columns, _COLUMNS))
        legend = figure.legend(
            handles, labels, loc="outside lower center", ncols=columns, frameon=False
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure


def _draw_run(
    axes: Axes, name: str, title: str, epochs: Sequence[Epoch], look: tuple[str, str, str]
) -> None:
    colour, marker, line = look
    number = [epoch["epoch"] for epoch in epochs]
    values = [_values(epoch)[title] for epoch in epochs]
    label = f" {name}" if name.startswith("_") else name  # else it would be in no legend
    [drawn] = axes.plot(number, values, marker + line, color=colour, markersize=3, label=label)
    drawn.set_clip_on(False)  # marks on an edge are not cut in half
    part = title.removesuffix(" steps")
    shares = [epoch.get("active", {}).get(part) for epoch in epochs]
    if part != title and all(shares):
        few, many = ([_quantile(share, q) for share in shares] for q in (_TENTH, 1 - _TENTH))
        axes.fill_between(number, few, many, color=colour, alpha=0.15, linewidth=0)


def _values(epoch: Epoch) -> dict[str, float]:
    """Return what is drawn of an epoch, by the title of its panel."""
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
    """Return the least number of steps that this share of nodes do not exceed.

    `active` are the shares of nodes that are active at step 1, 2, ...

    Examples
    --------
    >>> [_quantile([1.0, 0.75, 0.25], share) for share in (0.1, 0.5, 0.9)]
    [1, 2, 3]
    """
    return 1 + sum(round(here + share - 1, 9) > 0 for here in active[1:])
