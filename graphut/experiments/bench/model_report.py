"""What a benchmark of the recurrence found, as a table and as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphut.experiments.bench.table import aligned, digits
from graphut.experiments.bench.timing import Times

if TYPE_CHECKING:
    from graphut.experiments.bench.model import ModelProblem

_MIB = 1 << 20
_HEAD = [
    "shape", "d", "halting", "pass", "dense ms", "graphut ms", "speed-up", "by FLOPs",
    "of the bound", "dense MiB", "graphut MiB", "less memory", "error",
]  # fmt: skip


@dataclass
class ModelRow:
    """One pass of the two models.

    Parameters
    ----------
    problem : ModelProblem
        What was run.
    what : {"forward", "forward+backward"}
        The pass.
    error : float
        The largest relative difference of outputs and gradients.
    bound : float
        Floating-point operations of the dense model by those of the adaptive one.
    dense, adaptive : Times, optional
        Of one run of each.
    dense_peak, adaptive_peak : int, optional
        Bytes held at most above weights and inputs.
    reason : str, optional
        Why there are no figures.
    """

    problem: ModelProblem
    what: str
    error: float
    bound: float
    dense: Times | None = None
    adaptive: Times | None = None
    dense_peak: int | None = None
    adaptive_peak: int | None = None
    reason: str | None = None

    @property
    def speed_up(self) -> float | None:
        """Median of the dense model's times by that of the adaptive one's."""
        if self.dense is None or self.adaptive is None:
            return None
        return self.dense.median / self.adaptive.median

    @property
    def memory_ratio(self) -> float | None:
        """How many times less memory the adaptive model needs."""
        return (
            self.dense_peak / self.adaptive_peak if self.dense_peak and self.adaptive_peak else None
        )

    def cells(self) -> list[str]:
        """A line of the table."""
        problem = self.problem
        name = f"{problem.sizes} {problem.topology}"
        start = [name, str(problem.dim), "schedule" if problem.halting else "nobody", self.what]
        speed_up = self.speed_up
        if speed_up is None or self.dense is None or self.adaptive is None:
            return ["  ".join(start), self.reason or ""]
        return [
            *start,
            digits(1e3 * self.dense.median),
            digits(1e3 * self.adaptive.median),
            digits(speed_up),
            digits(self.bound),
            f"{speed_up / self.bound:.0%}",
            _mib(self.dense_peak),
            _mib(self.adaptive_peak),
            "?" if self.memory_ratio is None else digits(self.memory_ratio),
            f"{self.error:.0e}",
        ]

    def to_dict(self) -> dict[str, Any]:
        """The row for a JSON file: seconds and bytes."""
        problem, speed_up = self.problem, self.speed_up
        return {
            "topology": str(problem.topology),
            "sizes": str(problem.sizes),
            "dim": problem.dim,
            "heads": problem.heads,
            "backend": problem.backend,
            "device": problem.device.type,
            "halting": "schedule" if problem.halting else "nobody",
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
    """All rows, and where they were measured.

    Parameters
    ----------
    rows : list of ModelRow
        Each pass of each problem.
    machine : dict
        Where and with what.
    """

    rows: list[ModelRow]
    machine: dict[str, object]

    def __add__(self, other: ModelReport) -> ModelReport:
        return ModelReport(self.rows + other.rows, self.machine)

    def text(self) -> str:
        """The table."""
        return aligned(_HEAD, [row.cells() for row in self.rows])

    def to_dict(self) -> dict[str, Any]:
        """The report for a JSON file."""
        return {
            "bench": "model",
            "machine": self.machine,
            "rows": [row.to_dict() for row in self.rows],
        }


def _mib(size: int | None) -> str:
    return "?" if size is None else f"{size / _MIB:.1f}"
