"""Training by epoch: curves of loss, accuracy and steps, and the distribution of steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphut.plotting.figure import BLUE, number_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL = 3.6, 2.6  # inches
Epochs: TypeAlias = Sequence[Mapping[str, Any]]


def training_panels(epochs: Epochs) -> dict[str, Callable[[Axes], None]]:
    """Return a dictionary from the title of each panel to the function that draws it on axes.

    `epochs` are the dictionaries in the `metrics.jsonl` of a run, one per epoch. The panels are
    curves of loss, accuracy and mean number of steps, and the distribution of steps as a heat map
    if nodes halt.
    """
    return {
        **{title: partial(_draw_curve, epochs, title) for title in _values(epochs[-1])},
        **{
            f"{part}: share of nodes by steps": partial(_draw_distribution, epochs, part)
            for part, shares in epochs[-1].get("active", {}).items()
            if min(shares) < 1  # nodes halt
        },
    }


def _draw_curve(epochs: Epochs, title: str, axes: Axes) -> None:
    from matplotlib.ticker import PercentFormatter

    values = [_values(epoch)[title] for epoch in epochs]
    # above the axes, which would hide values of 0, and not cut at their edge
    style: dict[str, Any] = {"color": BLUE, "markersize": 3, "zorder": 3, "clip_on": False}
    axes.plot([epoch["epoch"] for epoch in epochs], values, "o-", **style)
    axes.set(title=title, xlabel="epoch")
    axes.set_ylim(bottom=min(0, axes.dataLim.y0))  # R2 can be negative
    if "accuracy" in title:
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.spines[["top", "right"]].set_visible(False)
    number_ticks(axes.xaxis)


def _draw_distribution(epochs: Epochs, part: str, axes: Axes) -> None:
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
