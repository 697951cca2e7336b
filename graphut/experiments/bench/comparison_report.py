"""The report of a comparison of topologies, as a table, as JSON and as a picture."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from graphut.experiments.tables import milliseconds, plain_table, three_digits
from graphut.experiments.training import PairEvaluation
from graphut.plotting.figure import BLUE, ORANGE, new_figure, shortened
from graphut.topology import Topology

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEAD = ["sequences right", "tokens right", "edges", "ms a batch", "encoder steps", "decoder steps"]
_Bars = Sequence[tuple[str, str, list[list[float]]]]  # label, colour, values of each row


@dataclass(frozen=True)
class ComparisonRow:
    """The models under one topology."""

    topology: Topology
    edges: float  # of a sentence, on average over a batch
    seconds: float  # of a forward and a backward pass: the median, on average over seeds
    evaluations: list[PairEvaluation]  # of the best model of each seed, on the test set

    def values(self, name: str) -> list[float]:
        """Return a field of the evaluations, one value for each seed."""
        return [getattr(evaluation, name) for evaluation in self.evaluations]

    def percentages(self, name: str) -> list[float]:
        """Return a share of one in percent, one value for each seed."""
        return [100 * value for value in self.values(name)]

    def cells(self) -> list[str]:
        """Return a line of the table."""
        return [
            str(self.topology),
            _spread(self.percentages("sequence_accuracy"), "%"),
            _spread(self.percentages("token_accuracy"), "%"),
            three_digits(self.edges),
            milliseconds(self.seconds),
            _spread(self.values("encoder_steps")),
            _spread(self.values("decoder_steps")),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the row for a JSON file."""
        evaluations = [asdict(evaluation) for evaluation in self.evaluations]
        return {**vars(self), "topology": str(self.topology), "evaluations": evaluations}


@dataclass(frozen=True)
class ComparisonReport:
    """All topologies of a comparison."""

    task: str
    part: str  # the part of the model whose topology differs
    seeds: Sequence[int]
    epochs: int  # passes over the training pairs, at most
    rows: list[ComparisonRow]
    machine: dict[str, object]

    @property
    def title(self) -> str:
        """One line that says what was compared.

        Examples
        --------
        >>> ComparisonReport("sort", "encoder", [0, 1], 40, [], {}).title
        'encoder topologies on sort, at most 40 epochs, seeds 0 and 1'
        """
        seeds = " and ".join(map(str, self.seeds))
        plural = "s" if len(self.seeds) > 1 else ""
        return (
            f"{self.part} topologies on {self.task}, at most {self.epochs} epochs, "
            f"seed{plural} {seeds}"
        )

    def text(self) -> str:
        """Return the table; several seeds give a mean and its standard deviation."""
        head = [f"{self.part} topology", *_HEAD]
        return f"{self.title}\n\n{plain_table(head, [row.cells() for row in self.rows])}"

    def to_dict(self) -> dict[str, Any]:
        """Return the report for a JSON file: seconds and shares."""
        rows = [row.to_dict() for row in self.rows]
        return {**vars(self), "seeds": [*self.seeds], "rows": rows}

    def draw(self) -> Figure:
        """Draw accuracy, edges, time and steps of each topology; seeds are dots on their mean.

        Raises
        ------
        ImportError
            If there is no matplotlib.
        """
        rows = self.rows
        figure = new_figure(12, 1.9 + 0.42 * len(rows))
        figure.suptitle(self.title)
        accuracy, edges, time, steps = figure.subplots(1, 4, sharey=True)
        _bars(accuracy, "right on the test set, %", [
            ("sequences", BLUE, [row.percentages("sequence_accuracy") for row in rows]),
            ("tokens", ORANGE, [row.percentages("token_accuracy") for row in rows]),
        ])  # fmt: skip
        accuracy.set_xlim(0, 105)
        _bars(edges, f"{self.part} edges of a sentence", [("", BLUE, [[r.edges] for r in rows])])
        milliseconds = [[1e3 * row.seconds] for row in rows]
        _bars(time, "forward and backward, ms", [("", BLUE, milliseconds)])
        _bars(steps, "mean steps of a token", [
            ("encoder", BLUE, [row.values("encoder_steps") for row in rows]),
            ("decoder", ORANGE, [row.values("decoder_steps") for row in rows]),
        ])  # fmt: skip
        accuracy.set_yticks(range(len(rows)), [shortened(str(row.topology)) for row in rows])
        accuracy.invert_yaxis()
        return figure


def _bars(axes: Axes, title: str, series: _Bars) -> None:
    """Draw bars of the means beside each other, and a dot for each of several seeds."""
    height = 0.8 / len(series)
    for number, (label, colour, rows) in enumerate(series):
        offset = (number - (len(series) - 1) / 2) * height
        heights = [row + offset for row in range(len(rows))]
        axes.barh(heights, [*map(statistics.mean, rows)], height, color=colour, label=label)
        for y, values in zip(heights, rows, strict=True):
            if len(values) > 1:
                axes.plot(values, [y] * len(values), "ko", markersize=3, clip_on=False)
    axes.set_xlabel(title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    if len(series) > 1:
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)


def _spread(values: Sequence[float], unit: str = "") -> str:
    mean = f"{statistics.mean(values):.2f}{unit}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.2f}"
