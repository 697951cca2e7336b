"""What a benchmark of attention found, as a table and as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from graphut.experiments.bench.peers import PEERS
from graphut.experiments.bench.problem import AttentionProblem
from graphut.experiments.bench.table import aligned, digits
from graphut.experiments.bench.timing import Times

_MIB = 1 << 20
# Whom everyone is held against. DGL's operators are a backend and a peer in one.
REFERENCES = ("dgl", *PEERS)


@dataclass
class Row:
    """One contender: its figures, or why there are none.

    Parameters
    ----------
    name : str
        What it is called.
    backend : bool
        Whether it is one of graphut's backends; else a peer.
    error : float, optional
        The largest relative error of output and gradients.
    times : Times, optional
        Of one run.
    peak : int, optional
        Bytes held at most above the inputs.
    reason : str, optional
        Why there are no figures.
    """

    name: str
    backend: bool
    error: float | None = None
    times: Times | None = None
    peak: int | None = None
    reason: str | None = None


@dataclass(frozen=True)
class AttentionReport:
    """All contenders of one problem.

    Parameters
    ----------
    problem : AttentionProblem
        What was computed.
    rows : list of Row
        The contenders.
    matmul_speed : float
        Floating-point operations a second of a product of matrices.
    machine : dict
        Where and with what.
    """

    problem: AttentionProblem
    rows: list[Row]
    matmul_speed: float
    machine: dict[str, object]

    @property
    def best(self) -> str | None:
        """The fastest backend, by median."""
        timed = [(row.times.median, row.name) for row in self.rows if row.backend and row.times]
        return min(timed)[1] if timed else None

    def speed(self, times: Times) -> float:
        """Useful floating-point operations a second."""
        return self.problem.flops / times.median

    def ratios(self, times: Times) -> dict[str, float]:
        """How many times faster than each peer that ran."""
        by_name = {row.name: row.times for row in self.rows if row.times}
        return {name: by_name[name].median / times.median for name in REFERENCES if name in by_name}

    def text(self) -> str:
        """The table, under a line that says what was computed."""
        peers = [name for name in REFERENCES if any(r.name == name and r.times for r in self.rows)]
        head = ["contender", "ms", "quartiles", "peak MiB", "GFLOP/s", "of matmul", "error"]
        head += [f"x {name}" for name in peers]
        lines = [self._title(), "", aligned(head, [self._cells(row) for row in self.rows]), ""]
        lines.append(f"matmul: {digits(self.matmul_speed / 1e9)} GFLOP/s (float32, 1024 x 1024)")
        if self.best is not None:
            lines.append(f"fastest backend for {self.problem.kind} calls here: {self.best}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The report for a JSON file: seconds, bytes, operations a second."""
        return {
            "bench": "attention",
            "machine": self.machine,
            "problem": self._problem(),
            "matmul_flops_per_second": self.matmul_speed,
            "best": self.best,
            "rows": [self._row(row) for row in self.rows],
        }

    def _title(self) -> str:
        problem, sizes = self.problem, self.problem.sizes
        done = "forward" if problem.forward_only else "forward and backward"
        active = "" if problem.frontier is None else f", {problem.fraction:.0%} of the rows active"
        bias = ", with edge bias" if problem.biased else ""
        return (
            f"{problem.topology} on {sizes} tokens{active}: {problem.edges:,} edges, "
            f"{problem.dim} features in {problem.heads} heads, {_name(problem)}{bias}; {done}; "
            f"{problem.device.type}, {self.machine['threads']} threads"
        )

    def _cells(self, row: Row) -> list[str]:
        if row.times is None:
            return [row.name, row.reason or ""]
        times, speed = row.times, self.speed(row.times)
        return [
            row.name,
            digits(1e3 * times.median),
            f"{digits(1e3 * times.lower)}-{digits(1e3 * times.upper)}",
            "?" if row.peak is None else f"{row.peak / _MIB:.1f}",
            digits(speed / 1e9),
            f"{speed / self.matmul_speed:.0%}",
            f"{row.error:.0e}",
            *(digits(ratio) for ratio in self.ratios(times).values()),
        ]

    def _row(self, row: Row) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": row.name,
            "backend": row.backend,
            "error": row.error if row.error is not None and math.isfinite(row.error) else None,
            "reason": row.reason,
        }
        if row.times is None:
            return found
        return found | {
            "seconds": vars(row.times),
            "peak_bytes": row.peak,
            "flops_per_second": self.speed(row.times),
            "share_of_matmul": self.speed(row.times) / self.matmul_speed,
            "times_faster_than": self.ratios(row.times),
        }

    def _problem(self) -> dict[str, Any]:
        problem = self.problem
        return {
            "topology": str(problem.topology),
            "sizes": str(problem.sizes),
            "nodes": problem.layout.num_src,
            "edges": problem.edges,
            "dim": problem.dim,
            "heads": problem.heads,
            "dtype": _name(problem),
            "device": problem.device.type,
            "frontier": problem.fraction,
            "edge_bias": problem.biased,
            "forward_only": problem.forward_only,
            "flops": problem.flops,
        }


def _name(problem: AttentionProblem) -> str:
    return str(problem.dtype).removeprefix("torch.")
