"""A comparison of topologies as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from graphut.plotting.figure import BLUE, ORANGE, new_figure, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from graphut.experiments.bench import ComparisonReport

Series = Sequence[tuple[str, str, list[list[float]]]]  # label, colour, values of each row


def draw_comparison(report: ComparisonReport) -> Figure:
    """Draw accuracy, edges, time and steps of each topology; seeds are dots on their mean.

    Parameters
    ----------
    report : ComparisonReport
        What to draw.

    Returns
    -------
    matplotlib.figure.Figure
        `figure.savefig("comparison.png")` writes it.

    Raises
    ------
    ImportError
        If there is no matplotlib.
    """
    rows = report.rows
    figure = new_figure(12, 1.9 + 0.42 * len(rows))
    figure.suptitle(report.title)
    accuracy, edges, time, steps = figure.subplots(1, 4, sharey=True)

    def percent(name: str) -> list[list[float]]:
        return [[100 * value for value in row.values(name)] for row in rows]

    _bars(accuracy, "right on the test set, %", [
        ("sequences", BLUE, percent("sequence_accuracy")),
        ("tokens", ORANGE, percent("token_accuracy")),
    ])  # fmt: skip
    accuracy.set_xlim(0, 105)
    _bars(edges, f"{report.part} edges of a sentence", [("", BLUE, [[row.edges] for row in rows])])
    _bars(time, "forward and backward, ms", [("", BLUE, [[1e3 * row.seconds] for row in rows])])
    _bars(steps, "mean steps of a token", [
        ("encoder", BLUE, [row.values("encoder_steps") for row in rows]),
        ("decoder", ORANGE, [row.values("decoder_steps") for row in rows]),
    ])  # fmt: skip
    accuracy.set_yticks(range(len(rows)), [shortened(str(row.topology)) for row in rows])
    accuracy.invert_yaxis()
    return figure


def _bars(axes: Axes, title: str, series: Series) -> None:
    """Bars of the means beside each other, and a dot for each seed where there are several."""
    height = 0.8 / len(series)
    for number, (label, colour, rows) in enumerate(series):
        offset = (number - (len(series) - 1) / 2) * height
        place = [row + offset for row in range(len(rows))]
        means = [float(torch.tensor(values).mean()) for values in rows]
        axes.barh(place, means, height, color=colour, label=label)
        for y, values in zip(place, rows, strict=True):
            if len(values) > 1:
                axes.plot(values, [y] * len(values), "ko", markersize=3, clip_on=False)
    axes.set_xlabel(title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    if len(series) > 1:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
