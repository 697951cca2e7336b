"""Training curves: loss, accuracy and steps by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphut.plotting.figure import line_styles, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 3
_LONGEST = 100  # letters of the name of a run


def draw_training(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Draw loss, accuracy and mean number of steps of one or more runs by epoch.

    `runs` maps the name of each run to the dictionaries in its `metrics.jsonl`, one per epoch.

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
    titles = list(dict.fromkeys(title for epochs in runs.values() for title in _values(epochs[-1])))
    rows = -(-len(titles) // _COLUMNS)
    figure = new_figure(3.6 * _COLUMNS, 0.4 + 2.6 * rows)
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    for panel, title in enumerate(titles, 1):
        axes = figure.add_subplot(rows, _COLUMNS, panel)
        axes.set(title=title, xlabel="epoch")
        styled = zip(runs.items(), line_styles(), strict=False)
        for (name, epochs), (colour, marker, line) in styled:
            if title in _values(epochs[-1]):
                number = [epoch["epoch"] for epoch in epochs]
                values = [_values(epoch)[title] for epoch in epochs]
                # above the axes, which would hide values of 0
                options: dict[str, Any] = {"color": colour, "label": _label(name), "zorder": 3}
                options["markersize"] = 3
                [drawn] = axes.plot(number, values, marker + line, **options)
                drawn.set_clip_on(False)  # do not cut markers at the edge of the axes
        axes.set_ylim(bottom=min(0, axes.dataLim.y0))  # R2 can be negative
        if "accuracy" in title:
            axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.spines[["top", "right"]].set_visible(False)
    if len(runs) > 1:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        legend = figure.legend(handles, labels, loc="outside lower center", frameon=False)
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure


def _label(name: str) -> str:
    # Keep the end of a long name: the paths of runs often share a prefix.
    name = name if len(name) <= _LONGEST else f"...{name[3 - _LONGEST :]}"
    # matplotlib leaves labels that begin with _ out of the legend
    return f" {name}" if name.startswith("_") else name


def _values(epoch: Mapping[str, Any]) -> dict[str, float]:
    """Return a dictionary from the title of each panel to the value that it shows for an epoch."""
    validation = epoch["validation"]
    shown = {f"validation: {x.upper()}": validation.get(x) for x in ("mae", "r2")}
    if validation.get("mae") is None:  # the model does not predict values
        measure, score = next(iter(validation.items()))
        name = f"validation: {measure.replace('_', ' ')}"
        shown = {"accuracy of labels": epoch["accuracy"], name: score}
    return {
        "loss": epoch["loss"],
        **{title: x for title, x in shown.items() if x is not None},
        **{name.replace("_", " "): x for name, x in epoch.items() if name.endswith("_steps")},
    }
