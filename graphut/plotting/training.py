"""Curves of training by epoch: loss, accuracy and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphut.plotting.figure import BLUE, new_figure, number_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def training_curves(epochs: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return a dictionary from the title of each curve to its values, one per epoch.

    `epochs` are the dictionaries in the `metrics.jsonl` of a run, one per epoch.
    """
    values = [_values(epoch) for epoch in epochs]
    return {title: [each[title] for each in values] for title in values[-1]}


def draw_curve(title: str, epochs: Sequence[int], values: Sequence[float]) -> Figure:
    """Draw a value by epoch."""
    figure = new_figure(3.6, 2.6)
    from matplotlib.ticker import PercentFormatter

    axes = figure.add_subplot()
    # above the axes, which would hide values of 0, and not cut at their edge
    style: dict[str, Any] = {"color": BLUE, "markersize": 3, "zorder": 3, "clip_on": False}
    axes.plot(epochs, values, "o-", **style)
    axes.set(title=title, xlabel="epoch")
    axes.set_ylim(bottom=min(0, *values))  # R2 can be negative
    if "accuracy" in title:
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.spines[["top", "right"]].set_visible(False)
    number_ticks(axes.xaxis)
    return figure


def _values(epoch: Mapping[str, Any]) -> dict[str, float]:
    """Return a dictionary from the title of each curve to its value in an epoch."""
    validation = epoch["validation"]
    shown = {f"validation: {x.upper()}": validation.get(x) for x in ("mae", "r2")}
    if validation.get("mae") is None:  # the model does not predict values
        measure, score = next(iter(validation.items()))
        name = f"validation: {measure.replace('_', ' ')}"
        shown = {"accuracy of labels": epoch["accuracy"], name: score}
    steps = [name for name in epoch if name.endswith("_steps")]
    return {
        "loss": epoch["loss"],
        **{title: x for title, x in shown.items() if x is not None},
        **{name.replace("_", " ") if len(steps) > 1 else "steps": epoch[name] for name in steps},
    }
