"""Line charts: their data, and a picture that holds a digest of its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from graphut.plotting.figure import line_styles, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 3
_LABEL = 40  # characters that a panel is wide


@dataclass(frozen=True)
class Series:
    """Points that are joined by a line where the space between two of them has a meaning."""

    label: str
    points: Sequence[tuple[float, float]]  # at least one
    joined: bool = True


@dataclass(frozen=True)
class Panel:
    """Series on the same axes, told apart by colour, mark and kind of line."""

    title: str
    x: str
    y: str
    series: Sequence[Series]


@dataclass(frozen=True)
class Chart:
    """Panels beside each other; there is none where nothing was measured."""

    title: str  # the text in place of the picture
    panels: Sequence[Panel]

    @property
    def digest(self) -> str:
        """A text that changes with the data."""
        return sha256(repr(self).encode()).hexdigest()

    def draw(self) -> Figure:
        """Return the chart as a figure; that takes matplotlib."""
        rows = -(-len(self.panels) // _COLUMNS)
        columns = min(len(self.panels), _COLUMNS)
        figure = new_figure(4 * columns, 0.6 + 3 * rows)
        for number, panel in enumerate(self.panels, 1):
            _draw(figure.add_subplot(rows, columns, number), panel)
        return figure

    def save(self, path: str | Path) -> None:
        """Draw the chart into a PNG file, which holds the digest."""
        metadata = {"Description": self.digest, "Software": None}
        self.draw().savefig(path, format="png", metadata=metadata)

    def is_drawn(self, path: str | Path) -> bool:
        """Return whether a file was drawn from the same data."""
        return Path(path).is_file() and self.digest.encode() in Path(path).read_bytes()


def _draw(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    for series, (colour, marker, line) in zip(panel.series, line_styles(), strict=False):
        x, y = zip(*series.points, strict=True)
        look = marker + line if series.joined else marker
        label = fill(series.label, _LABEL, break_on_hyphens=False)
        axes.plot(x, y, look, color=colour, markersize=4, label=label)
    axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    # From zero on, or a difference in the third digit line_styles like all of it.
    axes.set_xlim(0, 1.05 * max(x for series in panel.series for x, _ in series.points) or 1)
    axes.set_ylim(0, 1.05 * max(y for series in panel.series for _, y in series.points) or 1)
    if all(float(x).is_integer() for series in panel.series for x, _ in series.points):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    # Below, where no point is.
    axes.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.2))
