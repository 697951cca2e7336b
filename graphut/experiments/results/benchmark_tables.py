"""The Markdown tables of benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphut.experiments.machine import machine_name
from graphut.experiments.results.records import BenchRecord
from graphut.experiments.tables import (
    NOT_MEASURED,
    code,
    markdown_table,
    milliseconds,
    percent,
    three_digits,
)
from graphut.plotting.figure import shortened

Row = Mapping[str, Any]
_NATIVE = {"cpu": "native", "cuda": "triton"}
_PEERS = ("dgl", "pyg", "padded", "sentences", "flex")


def attention_table(benches: Sequence[BenchRecord]) -> str:
    """Return the table of attention calls for all nodes, by the kernels written for the device."""
    return _attention([b for b in benches if b.kind == "attention" and _frontier(b) == 1], "")


def frontier_table(benches: Sequence[BenchRecord]) -> str:
    """Return the same table of calls where only some of the nodes are active."""
    chosen = [b for b in benches if b.kind == "attention" and _frontier(b) < 1]
    return _attention(chosen, " --frontier 0.25")


def model_table(benches: Sequence[BenchRecord]) -> str:
    """Return the table of the adaptive recurrence against a dense, padded, masked model."""
    head = ["topology", "tokens", "d", "pass", "halting", "dense ms", "adaptive ms", "x faster",
            "x by FLOPs", "share", "x less memory", "on", "command"]  # fmt: skip
    rows = [
        [*_model_cells(row), machine_name([bench.content["machine"]]), code(bench.command)]
        for bench in benches
        if bench.kind == "model"
        for row in bench.content["rows"]
    ]
    return _table(head, rows, "graphut bench model --shape 64x10-60 --dim 128 --out FILE.json")


def scaling_table(benches: Sequence[BenchRecord]) -> str:
    """Return the table of how time and memory grow with the length of one sentence."""
    head = ["topology", "tokens", "d", "slope of time", "slope of memory", "ms at the longest",
            "on", "command"]  # fmt: skip
    rows = [
        [
            _topology(content),
            f"{content['rows'][0]['nodes']} to {content['rows'][-1]['nodes']}",
            str(content["dim"]),
            three_digits(content["time_slope"]),
            _known(content["memory_slope"]),
            milliseconds(content["rows"][-1]["seconds"]["median"]),
            machine_name([content["machine"]]),
            code(bench.command),
        ]
        for bench in benches
        if bench.kind == "scaling"
        for content in [bench.content]
    ]
    return _table(head, rows, "graphut bench scaling --out FILE.json")


def _attention(benches: Sequence[BenchRecord], options: str) -> str:
    head = ["topology", "tokens", "d", "active", "kernels", "ms", "GFLOP/s", "of matmul",
            *(f"x {peer}" for peer in _PEERS), "fastest", "on", "command"]  # fmt: skip
    rows = [row for bench in benches for row in _attention_rows(bench)]
    shape = "--topology causal --nodes 4096 --dim 128"
    return _table(head, rows, f"graphut bench attention {shape}{options} --out FILE.json")


def _attention_rows(bench: BenchRecord) -> list[list[str]]:
    """Return a row for graphut's kernels, if they ran."""
    problem = bench.content["problem"]
    ours = _NATIVE[problem["device"].partition(":")[0]]
    return [
        [
            _topology(problem),
            problem["sizes"],
            str(problem["dim"]),
            f"{percent(problem['frontier'])}%",
            row["name"],
            milliseconds(row["seconds"]["median"]),
            three_digits(row["flops_per_second"] / 1e9),
            f"{percent(row['share_of_matmul'])}%",
            *(_known(row["times_faster_than"].get(peer)) for peer in _PEERS),
            bench.content["best"],
            machine_name([bench.content["machine"]]),
            code(bench.command),
        ]
        for row in bench.content["rows"]
        if row["name"] == ours and row.get("seconds")
    ]


def _model_cells(row: Row) -> list[str]:
    start = [_topology(row), row["sizes"], str(row["dim"]), row["pass"], row["halting"]]
    if row["reason"] is not None:
        return [*start, row["reason"], *[NOT_MEASURED] * 5]
    return [
        *start,
        milliseconds(row["dense_seconds"]["median"]),
        milliseconds(row["adaptive_seconds"]["median"]),
        three_digits(row["speed_up"]),
        three_digits(row["bound_by_flops"]),
        f"{percent(row['share_of_bound'])}%",
        _known(row["memory_ratio"]),
    ]


def _topology(row: Row) -> str:
    return code(shortened(row["topology"]))


def _frontier(bench: BenchRecord) -> float:
    found: float = bench.content["problem"]["frontier"]
    return found


def _known(value: float | None) -> str:
    return NOT_MEASURED if value is None else three_digits(value)


def _table(head: list[str], rows: list[list[str]], command: str) -> str:
    if rows:
        return markdown_table(head, rows)
    return f"Not measured yet: {code(command)}"
