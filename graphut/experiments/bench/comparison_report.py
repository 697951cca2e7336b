"""What a comparison of topologies found, as a table and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphut.experiments.bench.table import aligned, digits
from graphut.experiments.training import Evaluation
from graphut.topology import Topology

_HEAD = ["sequences right", "tokens right", "edges", "ms a batch", "encoder steps", "decoder steps"]


@dataclass(frozen=True)
class ComparisonRow:
    """What one topology made of a model.

    Parameters
    ----------
    topology : Topology
        Who attends to whom.
    edges : float
        Edges of a sentence, on average over a batch.
    seconds : float
        Of a forward and a backward pass over that batch: the median, on average over seeds.
    evaluations : list of Evaluation
        Of the best model of each seed, on the test set.
    """

    topology: Topology
    edges: float
    seconds: float
    evaluations: list[Evaluation]

    def values(self, name: str) -> list[float]:
        """A field of the evaluations, one value for each seed."""
        return [evaluation[name] for evaluation in self.evaluations]

    def cells(self) -> list[str]:
        """A line of the table."""
        return [
            str(self.topology),
            _spread([100 * value for value in self.values("sequence_accuracy")], "%"),
            _spread([100 * value for value in self.values("token_accuracy")], "%"),
            digits(self.edges),
            digits(1e3 * self.seconds),
            _spread(self.values("encoder_steps")),
            _spread(self.values("decoder_steps")),
        ]

    def to_dict(self) -> dict[str, Any]:
        """The row for a JSON file."""
        evaluations = [evaluation.metrics for evaluation in self.evaluations]
        return {**vars(self), "topology": str(self.topology), "evaluations": evaluations}


@dataclass(frozen=True)
class ComparisonReport:
    """All topologies of a comparison.

    Parameters
    ----------
    task : str
        What was learned.
    part : {"encoder", "decoder", "cross"}
        Whose topologies they are.
    seeds : sequence of int
        Of the runs.
    epochs : int
        Passes over the training pairs, at most.
    rows : list of ComparisonRow
        One for each topology.
    machine : dict
        Where and with what.
    """

    task: str
    part: str
    seeds: Sequence[int]
    epochs: int
    rows: list[ComparisonRow]
    machine: dict[str, object]

    @property
    def title(self) -> str:
        """What was compared.

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
        """The table; several seeds give a mean and its standard deviation."""
        head = [f"{self.part} topology", *_HEAD]
        return f"{self.title}\n\n{aligned(head, [row.cells() for row in self.rows])}"

    def to_dict(self) -> dict[str, Any]:
        """The report for a JSON file: seconds and shares."""
        return {
            **vars(self),
            "seeds": [*self.seeds],
            "rows": [row.to_dict() for row in self.rows],
        }


def _spread(values: Sequence[float], unit: str = "") -> str:
    mean = f"{statistics.mean(values):.2f}{unit}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.2f}"
