"""The report of the attention benchmark, as a table and as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from graphut.experiments.bench.peers import PEERS
from graphut.experiments.bench.timing import Times
from graphut.experiments.bench.workloads import AttentionProblem
from graphut.experiments.tables import mebibytes, plain_table, three_digits

# All are compared with these. DGL's operators are a backend and a peer in one.
_COMPARED_WITH = ("dgl", *PEERS)


@dataclass
class AttentionRow:
    """One implementation: its figures, or the reason why there are none."""

    name: str
    backend: bool  # one of graphut's backends; else a peer
    error: float | None = None  # the largest relative error of output and gradients
    times: Times | None = None
    peak: int | None = None  # the most bytes held above the inputs
    reason: str | None = None


@dataclass(frozen=True)
class AttentionReport:
    """All implementations of one problem.

    Parameters
    ----------
    problem : AttentionProblem
        The call.
    rows : list of AttentionRow
        The implementations.
    matmul_speed : float
        Floating-point operations a second of a product of matrices.
    machine : dict
        The machine, by `dated_machine`.
    """

    problem: AttentionProblem
    rows: list[AttentionRow]
    matmul_speed: float
    machine: dict[str, object]

    @property
    def best(self) -> str | None:
        """The fastest backend, by median."""
        timed = [(row.times.median, row.name) for row in self.rows if row.backend and row.times]
        return min(timed)[1] if timed else None

    def text(self) -> str:
        """Return the table, under a line that says what was computed."""
        peers = [name for name in _COMPARED_WITH if name in self._medians()]
        head = ["contender", "ms", "quartiles", "peak MiB", "GFLOP/s", "of matmul", "error"]
        head += [f"x {name}" for name in peers]
        table = plain_table(head, [self._cells(row) for row in self.rows])
        speed = three_digits(self.matmul_speed / 1e9)
        lines = [self._title(), "", table, ""]
        lines.append(f"matmul: {speed} GFLOP/s (float32, 1024 x 1024)")
        if self.best is not None:
            lines.append(f"fastest backend for {self.problem.kind} calls here: {self.best}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the report for a JSON file: seconds, bytes, operations a second."""
        return {
            "bench": "attention",
            "machine": self.machine,
            "problem": self.problem.to_dict(),
            "matmul_flops_per_second": self.matmul_speed,
            "best": self.best,
            "rows": [self._row(row) for row in self.rows],
        }

    def _medians(self) -> dict[str, float]:
        return {row.name: row.times.median for row in self.rows if row.times}

    def _ratios(self, times: Times) -> dict[str, float]:
        """Return how many times faster it is than each peer that ran."""
        medians = self._medians()
        return {n: medians[n] / times.median for n in _COMPARED_WITH if n in medians}

    def _title(self) -> str:
        problem = self.problem
        done = "forward" if problem.forward_only else "forward and backward"
        active = "" if problem.frontier is None else f", {problem.fraction:.0%} of the rows active"
        bias = ", with edge bias" if problem.biased else ""
        return (
            f"{problem.topology} on {problem.sizes} tokens{active}: {problem.edges:,} edges, "
            f"{problem.dim} features in {problem.heads} heads, {problem.dtype_name}{bias}; {done}; "
            f"{problem.device.type}, {self.machine['threads']} threads"
        )

    def _cells(self, row: AttentionRow) -> list[str]:
        if row.times is None:
            return [row.name, row.reason or ""]
        speed = self.problem.flops / row.times.median
        return [
            row.name,
            *row.times.cells(),
            mebibytes(row.peak),
            three_digits(speed / 1e9),
            f"{speed / self.matmul_speed:.0%}",
            f"{row.error:.0e}",
            *map(three_digits, self._ratios(row.times).values()),
        ]

    def _row(self, row: AttentionRow) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": row.name,
            "backend": row.backend,
            "error": row.error if row.error is not None and math.isfinite(row.error) else None,
            "reason": row.reason,
        }
        if row.times is None:
            return found
        speed = self.problem.flops / row.times.median
        return found | {
            "seconds": vars(row.times),
            "peak_bytes": row.peak,
            "flops_per_second": speed,
            "share_of_matmul": speed / self.matmul_speed,
            "times_faster_than": self._ratios(row.times),
        }
