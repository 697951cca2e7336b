"""The Markdown tables of benchmarks."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphut.experiments import tables
from graphut.experiments.machine import machine_name
from graphut.plotting.figure import shortened

Row = Mapping[str, Any]
_NATIVE = {"cpu": "native", "cuda": "triton"}
_PEERS = ("dgl", "pyg", "padded", "sentences", "flex")


def attention_table(benches: Sequence[Row], *, frontier: bool = False, cold: bool = False) -> str:
    """Return the table of attention calls by the kernels written for the device.

    With `frontier` it has the calls where only some of the nodes are active, with `cold` those
    before which other work fills the caches; else the others.
    """
    head = ["topology", "tokens", "d", "active", "kernels", "ms", "GFLOP/s", "of matmul",
            *(f"x {peer}" for peer in _PEERS), "fastest"]  # fmt: skip
    rows = [
        [*_attention_cells(bench, row), *_origin(bench)]
        for bench in _of_kind("attention", benches)
        for row in bench["rows"]
        if (bench["problem"]["frontier"] < 1) == frontier
        and bench.get("cold", False) == cold
        # Only graphut's kernels, if they ran.
        and row["name"] == _NATIVE[bench["problem"]["device"].partition(":")[0]]
        and row.get("seconds")
    ]
    options = "--topology causal --nodes 4096 --dim 128"
    options += " --frontier 0.25" * frontier + " --cold" * cold
    return _table(head, rows, f"graphut bench attention {options} --out FILE.json")


def _attention_cells(bench: Row, row: Row) -> list[str]:
    problem = bench["problem"]
    return [
        _topology(problem),
        problem["sizes"],
        str(problem["dim"]),
        f"{tables.percent(problem['frontier'])}%",
        row["name"],
        tables.milliseconds(row["seconds"]["median"]),
        tables.three_digits(row["flops_per_second"] / 1e9),
        f"{tables.percent(row['share_of_matmul'])}%",
        *(_known(row["times_faster_than"].get(peer)) for peer in _PEERS),
        bench["best"],
    ]


def model_table(benches: Sequence[Row]) -> str:
    """Return the table of the adaptive recurrence against a dense, padded, masked model."""
    head = ["topology", "tokens", "d", "pass", "halting", "dense ms", "adaptive ms", "x faster",
            "x by FLOPs", "share", "x less memory"]  # fmt: skip
    rows = [
        [*_model_cells(row), *_origin(bench)]
        for bench in _of_kind("model", benches)
        for row in bench["rows"]
    ]
    return _table(head, rows, "graphut bench model --shape 64x10-60 --dim 128 --out FILE.json")


def _model_cells(row: Row) -> list[str]:
    start = [_topology(row), row["sizes"], str(row["dim"]), row["pass"], row["halting"]]
    if row["reason"] is not None:
        return [*start, row["reason"], *[tables.NOT_MEASURED] * 5]
    return [
        *start,
        tables.milliseconds(row["dense_seconds"]["median"]),
        tables.milliseconds(row["adaptive_seconds"]["median"]),
        tables.three_digits(row["speed_up"]),
        tables.three_digits(row["bound_by_flops"]),
        f"{tables.percent(row['share_of_bound'])}%",
        _known(row["memory_ratio"]),
    ]


def scaling_table(benches: Sequence[Row]) -> str:
    """Return the table of how time and memory grow with the length of one sentence."""
    head = ["topology", "tokens", "d", "slope of time", "slope of memory", "ms at the longest"]
    scaling = _of_kind("scaling", benches)
    rows = [[*_scaling_cells(bench), *_origin(bench)] for bench in scaling]
    return _table(head, rows, "graphut bench scaling --out FILE.json")


def _scaling_cells(bench: Row) -> list[str]:
    shortest, longest = bench["rows"][0], bench["rows"][-1]
    return [
        _topology(bench),
        f"{shortest['nodes']} to {longest['nodes']}",
        str(bench["dim"]),
        tables.three_digits(bench["time_slope"]),
        _known(bench["memory_slope"]),
        tables.milliseconds(longest["seconds"]["median"]),
    ]


def layers_table(benches: Sequence[Row]) -> str:
    """Return the table of whole graph layers beside those of DGL and PyG."""
    found = _of_kind("layers", benches)
    peers = list(found[0]["rows"][0]["times_faster_than"]) if found else []
    head = ["graph", "layer", "ms", "peak MiB", *(f"x {peer}" for peer in peers)]
    rows = [
        [*_layer_cells(bench["problem"], row, peers), *_origin(bench)]
        for bench in found
        for row in bench["rows"]
    ]
    return _table(head, rows, "graphut bench layers --power-law --out FILE.json")


def _layer_cells(problem: Row, row: Row, peers: Iterable[str]) -> list[str]:
    kind = ", power law" * problem["power_law"]
    if problem["seeds"] is not None:
        kind += f", sampled blocks for {problem['seeds']:,} nodes"
    return [
        f"{problem['nodes']:,} nodes, {problem['edges']:,} edges{kind}",
        row["name"],
        tables.milliseconds(row["seconds"]["median"]),
        _known(row["peak_bytes"] and row["peak_bytes"] / 2**20),
        *(tables.three_digits(row["times_faster_than"][peer]) for peer in peers),
    ]


def gpu_table(benches: Sequence[Row]) -> str:
    """Return the table of all that was measured on a GPU."""
    rows = [
        [row["section"], name, _figure(value), *_origin(bench)]
        for bench in _of_kind("gpu", benches)
        for row in bench["rows"]
        for name, value in row["figures"].items()
    ]
    command = "python -m graphut.experiments.bench.gpu --out FILE.json"
    return _table(["section", "what", "figure"], rows, command)


def _figure(value: Any) -> str:
    return tables.three_digits(value) if type(value) is float else str(value)


def _of_kind(kind: str, benches: Iterable[Row]) -> list[Row]:
    return [bench for bench in benches if bench["bench"] == kind]


def _origin(bench: Row) -> list[str]:
    return [machine_name([bench["machine"]]), tables.code(shlex.join(bench["command"]))]


def _topology(row: Row) -> str:
    return tables.code(shortened(row["topology"]))


def _known(value: float | None) -> str:
    return tables.NOT_MEASURED if value is None else tables.three_digits(value)


def _table(head: list[str], rows: list[list[str]], command: str) -> str:
    if rows:
        return tables.markdown_table([*head, "on", "command"], rows)
    return f"Not measured yet: {tables.code(command)}"
