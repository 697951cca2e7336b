"""Training by epoch: curves of loss, accuracy and steps, and the distribution of steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphut.plotting.figure import line_styles, new_figure, number_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = 3.6, 2.6  # inches
_COLUMNS = 3
_LONGEST = 100  # letters of the name of a run


def draw_training(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Draw loss, accuracy and mean number of steps of one or more runs by epoch.

    `runs` maps the name of each run to the dictionaries in its `metrics.jsonl`, one per epoch. For
    a single run whose nodes halt, a heat map has the distribution of their steps in each epoch.

    Examples
    --------
    >>> epoch = {"epoch": 1, "loss": 0.5, "accuracy": 0.9, "encoder_steps": 2.0,
    ...          "validation": {"sequence_accuracy": 0.5}}
    >>> figure = draw_training({"sort": [epoch]})
    >>> [axes.get_title() for axes in figure.axes]
    ['loss', 'accuracy of labels', 'validation: sequence accuracy', 'encoder steps']
    """
    panels = training_panels(runs)
    rows = -(-len(panels) // _COLUMNS)
    figure = new_figure(PANEL[0] * _COLUMNS, 0.4 + PANEL[1] * rows)
    for place, draw in enumerate(panels.values(), 1):
        draw(figure.add_subplot(rows, _COLUMNS, place))
    if len(runs) > 1:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        legend = figure.legend(handles, labels, loc="outside lower center", frameon=False)
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure


def training_panels(
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
) -> dict[str, Callable[[Axes], None]]:
    """Return a dictionary from the title of each panel to the function that draws it on axes."""
    empty = [name for name, epochs in runs.items() if not epochs]
    if empty or not runs:
        raise ValueError(f"the runs {empty} have no completed epoch" if runs else "runs is empty")
    titles = dict.fromkeys(title for epochs in runs.values() for title in _values(epochs[-1]))
    panels: dict[str, Callable[[Axes], None]] = {
        title: partial(_draw_curves, runs, title) for title in titles
    }
    if len(runs) == 1:
        [epochs] = runs.values()
        panels |= {
            f"{part}: share of nodes by steps": partial(_draw_distribution, epochs, part)
            for part, shares in epochs[-1].get("active", {}).items()
            if min(shares) < 1  # nodes halt
        }
    return panels


def _draw_curves(runs: Mapping[str, Sequence[Mapping[str, Any]]], title: str, axes: Axes) -> None:
    from matplotlib.ticker import PercentFormatter

    axes.set(title=title, xlabel="epoch")
    styled = zip(runs.items(), line_styles(), strict=False)
    for (name, epochs), (colour, marker, line) in styled:
        if title in _values(epochs[-1]):
            number = [epoch["epoch"] for epoch in epochs]
            values = [_values(epoch)[title] for epoch in epochs]
            # above the axes, which would hide values of 0, and not cut at their edge
            style: dict[str, Any] = {"color": colour, "zorder": 3, "clip_on": False}
            axes.plot(number, values, marker + line, label=_label(name), markersize=3, **style)
    axes.set_ylim(bottom=min(0, axes.dataLim.y0))  # R2 can be negative
    if "accuracy" in title:
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.spines[["top", "right"]].set_visible(False)
    number_ticks(axes.xaxis)


def _draw_distribution(epochs: Sequence[Mapping[str, Any]], part: str, axes: Axes) -> None:
    """Draw the share of nodes that halt at each step: a column for each epoch."""
    active = [epoch["active"][part] for epoch in epochs if "active" in epoch]
    most, last = max(map(len, active)), epochs[-1]["epoch"]
    padded = np.array([[*shares, *[0.0] * (most + 1 - len(shares))] for shares in active])
    image = axes.imshow(
        -np.diff(padded).T, cmap="cividis", vmin=0, vmax=1, origin="lower", aspect="auto",
        extent=(last - len(active) + 0.5, last + 0.5, 0.5, most + 0.5),
    )  # fmt: skip
    axes.figure.colorbar(image, ax=axes)
    axes.set(title=f"{part}: share of nodes by steps", ylabel="steps", xlabel="epoch")
    number_ticks(axes.xaxis, axes.yaxis)


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
