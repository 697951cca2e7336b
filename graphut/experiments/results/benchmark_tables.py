"""The Markdown tables of benchmarks."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

from graphut.experiments import tables
from graphut.experiments.machine import machine_name
from graphut.plotting.figure import shortened

Row = Mapping[str, Any]
_NATIVE = {"cpu": "native", "cuda": "triton"}
_PEERS = ("dgl", "pyg", "padded", "sentences", "flex")
_LAYER_PEERS = ("dgl DotGatConv", "dgl GATConv", "pyg TransformerConv")


@dataclass(frozen=True)
class BenchmarkTable:
    """A table of all reports of one benchmark."""

    bench: str  # the name of the benchmark
    head: Sequence[str]
    rows: Callable[[Row], Iterable[Sequence[str]]]  # the cells of a report
    command: str  # by which a report is made, without --out

    def markdown(self, benches: Iterable[Row]) -> str:
        """Return the table, or the command where there is no row for it."""
        rows = [
            [*cells, machine_name([report["machine"]]), tables.code(shlex.join(report["command"]))]
            for report in benches
            if report["bench"] == self.bench
            for cells in self.rows(report)
        ]
        if rows:
            return _without_empty([*self.head, "on", "command"], rows)
        return f"Not measured yet: {tables.code(f'{self.command} --out FILE.json')}"


def _without_empty(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table without the columns in which nothing was measured."""
    kept = [any(row[n] != tables.NOT_MEASURED for row in rows) for n in range(len(head))]
    return tables.markdown_table([*compress(head, kept)], [[*compress(row, kept)] for row in rows])


def _attention_rows(report: Row, frontier: bool = False, cold: bool = False) -> Iterator[list[str]]:
    """Yield the calls, with some active nodes or all, that the kernels for the device have run."""
    problem = report["problem"]
    if (problem["frontier"] < 1) != frontier or report.get("cold", False) != cold:
        return
    for row in report["rows"]:
        if row["name"] == _NATIVE[problem["device"].partition(":")[0]] and row.get("seconds"):
            yield [
                _topology(problem),
                problem["sizes"],
                str(problem["dim"]),
                f"{tables.percent(problem['frontier'])}%",
                tables.milliseconds(row["seconds"]["median"]),
                tables.three_digits(row["flops_per_second"] / 1e9),
                f"{tables.percent(row['share_of_matmul'])}%",
                *(_known(row["times_faster_than"].get(peer)) for peer in _PEERS),
                report["best"],
            ]


def _model_rows(report: Row) -> Iterator[list[str]]:
    for row in report["rows"]:
        start = [_topology(row), row["sizes"], str(row["dim"]), row["pass"], row["halting"]]
        if row["reason"] is not None:
            yield [*start, row["reason"], *[tables.NOT_MEASURED] * 5]
            continue
        yield [
            *start,
            tables.milliseconds(row["dense_seconds"]["median"]),
            tables.milliseconds(row["adaptive_seconds"]["median"]),
            tables.three_digits(row["speed_up"]),
            tables.three_digits(row["bound_by_flops"]),
            f"{tables.percent(row['share_of_bound'])}%",
            _known(row["memory_ratio"]),
        ]


def _scaling_rows(report: Row) -> Iterator[list[str]]:
    shortest, longest = report["rows"][0], report["rows"][-1]
    yield [
        _topology(report),
        f"{shortest['nodes']} to {longest['nodes']}",
        str(report["dim"]),
        tables.three_digits(report["time_slope"]),
        _known(report["memory_slope"]),
        tables.milliseconds(longest["seconds"]["median"]),
    ]


def _layer_rows(report: Row) -> Iterator[list[str]]:
    problem = report["problem"]
    kind = ", power law" * problem["power_law"]
    if problem["seeds"] is not None:
        kind += f", sampled blocks for {problem['seeds']:,} nodes"
    for row in report["rows"]:
        yield [
            f"{problem['nodes']:,} nodes, {problem['edges']:,} edges{kind}",
            row["name"],
            tables.milliseconds(row["seconds"]["median"]),
            _known(row["peak_bytes"] and row["peak_bytes"] / 2**20),
            *(_known(row["times_faster_than"].get(peer)) for peer in _LAYER_PEERS),
        ]


def _gpu_rows(report: Row) -> Iterator[list[str]]:
    for row in report["rows"]:
        for name, value in row["figures"].items():
            figure = tables.three_digits(value) if type(value) is float else str(value)
            yield [row["section"], name, figure]


def _topology(row: Row) -> str:
    return tables.code(shortened(row["topology"]))


def _known(value: float | None) -> str:
    return tables.NOT_MEASURED if value is None else tables.three_digits(value)


_CALL = "graphut bench attention --topology causal --nodes 4096 --dim 128"
_CALL_HEAD = ["topology", "tokens", "d", "active", "ms", "GFLOP/s", "of matmul",
              *(f"x {peer}" for peer in _PEERS), "fastest"]  # fmt: skip
BENCHMARK_TABLES: Mapping[str, BenchmarkTable] = {
    "attention": BenchmarkTable("attention", _CALL_HEAD, _attention_rows, _CALL),
    "frontier": BenchmarkTable(
        "attention", _CALL_HEAD, partial(_attention_rows, frontier=True), f"{_CALL} --frontier 0.25"
    ),
    "cold": BenchmarkTable(
        "attention", _CALL_HEAD, partial(_attention_rows, cold=True), f"{_CALL} --cold"
    ),
    "model": BenchmarkTable(
        "model", ["topology", "tokens", "d", "pass", "halting", "dense ms", "adaptive ms",
                  "x faster", "x by FLOPs", "share", "x less memory"],
        _model_rows, "graphut bench model --shape 64x10-60 --dim 128",
    ),
    "scaling": BenchmarkTable(
        "scaling", ["topology", "tokens", "d", "slope of time", "slope of memory",
                    "ms at the longest"],
        _scaling_rows, "graphut bench scaling",
    ),
    "layers": BenchmarkTable(
        "layers", ["graph", "layer", "ms", "peak MiB", *(f"x {peer}" for peer in _LAYER_PEERS)],
        _layer_rows, "graphut bench layers --power-law",
    ),
    "gpu": BenchmarkTable(
        "gpu", ["section", "what", "figure"], _gpu_rows, "python -m graphut.experiments.bench.gpu"
    ),
}  # fmt: skip
"""Tables by their name in the page."""
