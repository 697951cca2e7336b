"""The report of the recurrence benchmark, as a table and as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from graphut.experiments.bench.timing import Times
from graphut.experiments.bench.workloads import ModelProblem
from graphut.experiments.tables import mebibytes, milliseconds, plain_table, three_digits

_HEAD = [
    "shape", "d", "halting", "pass", "dense ms", "graphut ms", "speed-up", "by FLOPs",
    "of the bound", "dense MiB", "graphut MiB", "less memory", "error",
]  # fmt: skip


@dataclass
class ModelRow:
    """One pass of the two models."""

    problem: ModelProblem
    what: str  # "forward" or "forward+backward"
    error: float  # the largest relative difference of outputs and gradients
    bound: float  # floating-point operations of the dense model by those of the adaptive one
    dense: Times | None = None
    adaptive: Times | None = None
    dense_peak: int | None = None  # the most bytes held above weights and inputs
    adaptive_peak: int | None = None
    reason: str | None = None  # why there are no figures

    @property
    def speed_up(self) -> float | None:
        """The median time of the dense model by that of the adaptive one."""
        if self.dense is None or self.adaptive is None:
            return None
        return self.dense.median / self.adaptive.median

    @property
    def memory_ratio(self) -> float | None:
        """The peak memory of the dense model by that of the adaptive one."""
        if not self.dense_peak or not self.adaptive_peak:
            return None
        return self.dense_peak / self.adaptive_peak

    def cells(self) -> list[str]:
        """Return a line of the table."""
        problem, speed_up = self.problem, self.speed_up
        name = f"{problem.sizes} {problem.topology}"
        start = [name, str(problem.dim), problem.halting_name, self.what]
        if speed_up is None or self.dense is None or self.adaptive is None:
            return ["  ".join(start), self.reason or ""]
        return [
            *start,
            milliseconds(self.dense.median),
            milliseconds(self.adaptive.median),
            three_digits(speed_up),
            three_digits(self.bound),
            f"{speed_up / self.bound:.0%}",
            mebibytes(self.dense_peak),
            mebibytes(self.adaptive_peak),
            "?" if self.memory_ratio is None else three_digits(self.memory_ratio),
            f"{self.error:.0e}",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the row for a JSON file: seconds and bytes."""
        speed_up = self.speed_up
        return {
            **self.problem.to_dict(),
            "pass": self.what,
            "error": self.error if math.isfinite(self.error) else None,
            "reason": self.reason,
            "dense_seconds": vars(self.dense) if self.dense else None,
            "adaptive_seconds": vars(self.adaptive) if self.adaptive else None,
            "speed_up": speed_up,
            "bound_by_flops": self.bound,
            "share_of_bound": None if speed_up is None else speed_up / self.bound,
            "dense_peak_bytes": self.dense_peak,
            "adaptive_peak_bytes": self.adaptive_peak,
            "memory_ratio": self.memory_ratio,
        }


@dataclass(frozen=True)
class ModelReport:
    """Each pass of each problem, and the machine on which it was measured."""

    rows: list[ModelRow]
    machine: dict[str, object]

    def __add__(self, other: ModelReport) -> ModelReport:
        """Return a report with the rows of both."""
        return ModelReport(self.rows + other.rows, self.machine)

    def text(self) -> str:
        """Return the table."""
        return plain_table(_HEAD, [row.cells() for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """Return the report for a JSON file."""
        rows = [row.to_dict() for row in self.rows]
        return {"bench": "model", "machine": self.machine, "rows": rows}
