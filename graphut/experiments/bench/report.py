"""The reports of benchmarks: JSON objects in seconds and bytes, and the tables made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphut.experiments.tables import mebibytes, milliseconds, plain_table, three_digits

Report = dict[str, Any]
Row = Mapping[str, Any]


def report_text(report: Report) -> str:
    """Return the table of a benchmark, and what was computed."""
    texts = {
        "attention": _attention_text,
        "layers": _layers_text,
        "model": _model_text,
        "scaling": _scaling_text,
        "processes": _processes_text,
    }
    return "\n\n".join(texts[report["bench"]](report))


def _attention_text(report: Report) -> list[str]:
    problem, rows = report["problem"], report["rows"]
    share = problem["frontier"]
    active = f", {share:.0%} of the rows active" if share < 1 else ""
    bias = ", with edge bias" if problem["edge_bias"] else ""
    done = "forward" if problem["forward_only"] else "forward and backward"
    done += ", each call after other work on 64 MB" * report.get("cold", False)
    title = (
        f"{problem['topology']} on {problem['sizes']} tokens{active}: {problem['edges']:,} edges, "
        f"{problem['dim']} features in {problem['heads']} heads, {problem['dtype']}{bias}; {done}; "
        f"{problem['device']}, {report['machine']['threads']} threads"
    )
    head = ["contender", "ms", "quartiles", "peak MiB", "GFLOP/s", "of matmul", "error"]
    peers: Row = next((row["times_faster_than"] for row in rows if "seconds" in row), {})
    table = plain_table([*head, *(f"x {peer}" for peer in peers)], [*map(_attention_cells, rows)])
    speed = three_digits(report["matmul_flops_per_second"] / 1e9)
    notes = f"matmul: {speed} GFLOP/s (float32, 1024 x 1024)"
    if report["best"] is not None:
        notes += f"\nfastest backend for {problem['kind']} calls here: {report['best']}"
    return [title, table, notes]


def _attention_cells(row: Row) -> list[str]:
    if "seconds" not in row:
        return [row["name"], row["reason"] or ""]
    return [
        row["name"],
        *_times(row["seconds"]),
        mebibytes(row["peak_bytes"]),
        three_digits(row["flops_per_second"] / 1e9),
        f"{row['share_of_matmul']:.0%}",
        f"{row['error']:.0e}",
        *map(three_digits, row["times_faster_than"].values()),
    ]


def _layers_text(report: Report) -> list[str]:
    problem, rows = report["problem"], report["rows"]
    sizes = "; ".join(f"{src:,} to {dst:,} nodes, {e:,} edges" for src, dst, e in problem["blocks"])
    title = (
        f"{len(problem['blocks'])} layer(s): {sizes}; {problem['dim']} features in "
        f"{problem['heads']} heads, float32; forward and backward; "
        f"{report['machine']['threads']} threads"
    )
    head = ["layer", "ms", "quartiles", "peak MiB", "error"]
    head += [f"x {peer}" for peer in rows[0]["times_faster_than"]]
    return [title, plain_table(head, [*map(_layer_cells, rows)])]


def _layer_cells(row: Row) -> list[str]:
    return [
        row["name"],
        *_times(row["seconds"]),
        mebibytes(row["peak_bytes"]),
        "" if row["error"] is None else f"{row['error']:.0e}",
        *map(three_digits, row["times_faster_than"].values()),
    ]


def _model_text(report: Report) -> list[str]:
    head = ["shape", "d", "halting", "pass", "dense ms", "graphut ms", "speed-up", "by FLOPs"]
    head += ["of the bound", "dense MiB", "graphut MiB", "less memory", "error"]
    return [plain_table(head, [*map(_model_cells, report["rows"])])]


def _model_cells(row: Row) -> list[str]:
    start = [f"{row['sizes']} {row['topology']}", str(row["dim"]), row["halting"], row["pass"]]
    if row["reason"] is not None:
        return ["  ".join(start), row["reason"]]
    return [
        *start,
        milliseconds(row["dense_seconds"]["median"]),
        milliseconds(row["adaptive_seconds"]["median"]),
        three_digits(row["speed_up"]),
        three_digits(row["bound_by_flops"]),
        f"{row['share_of_bound']:.0%}",
        mebibytes(row["dense_peak_bytes"]),
        mebibytes(row["adaptive_peak_bytes"]),
        _known(row["memory_ratio"]),
        f"{row['error']:.0e}",
    ]


def _scaling_text(report: Report) -> list[str]:
    machine, slope = report["machine"], report["memory_slope"]
    memory = "?" if slope is None else f"{slope:.2f}"
    title = (
        f"{report['topology']} on one sentence, {report['dim']} features in {report['heads']} "
        "heads; layout and forward pass of one attention layer, float32; "
        f"{'gpu' if machine['gpu'] else 'cpu'}, {machine['threads']} threads"
    )
    head = ["nodes", "edges", "ms", "quartiles", "ns a node", "peak MiB", "bytes a node"]
    note = f"log-log slope: time {report['time_slope']:.2f}, memory {memory} (1 is linear)"
    return [title, plain_table(head, [*map(_scaling_cells, report["rows"])]), note]


def _scaling_cells(row: Row) -> list[str]:
    nodes, peak = row["nodes"], row["peak_bytes"]
    return [
        f"{nodes:,}",
        f"{row['edges']:,}",
        *_times(row["seconds"]),
        three_digits(1e9 * row["seconds"]["median"] / nodes),
        mebibytes(peak),
        _known(peak and peak / nodes),
    ]


def _processes_text(report: Report) -> list[str]:
    rows, fast = report["rows"], three_digits(report["times_faster"])
    cells = [[str(r["processes"]), str(r["threads"]), *_times(r["seconds"])] for r in rows]
    return [
        f"an update on {report['sizes']} tokens, {report['dim']} features in "
        f"{report['heads']} heads, float32",
        plain_table(["processes", "threads", "ms", "quartiles"], cells),
        f"{rows[1]['processes']} processes are {fast} times as fast as one",
    ]


def _times(seconds: Row) -> list[str]:
    lower, upper = milliseconds(seconds["lower"]), milliseconds(seconds["upper"])
    return [milliseconds(seconds["median"]), f"{lower}-{upper}"]


def _known(value: float | None) -> str:
    return "?" if value is None else three_digits(value)
