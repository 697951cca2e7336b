from __future__ import annotations

from typing import Any

import pytest

from graphut.experiments.results.benchmark_tables import BENCHMARK_TABLES
from graphut.experiments.results.records import bench_record
from tests.experiments.results.tiny import cells, row

MACHINE = {"cpu": "Abacus 9", "gpu": None, "threads": 2}
SECONDS = {"lower": 0.001, "median": 0.002, "upper": 0.003}


def make(bench: str, **content: Any) -> dict[str, Any]:
    command = ["graphut", "bench", bench]
    state = {"bench": bench, "command": command, "machine": MACHINE, "rows": [], **content}
    return bench_record("x", state)


def markdown(table: str, *benches: dict[str, Any]) -> str:
    return BENCHMARK_TABLES[table].markdown(benches)


def attention(frontier: float, device: str = "cpu") -> dict[str, Any]:
    problem = {"topology": "window:3|global:0", "sizes": "8x400", "dim": 128, "device": device,
               "frontier": frontier}  # fmt: skip
    rows = [
        {"name": "dgl", "seconds": SECONDS, "reason": None},
        {"name": "native", "reason": None, "seconds": SECONDS, "flops_per_second": 5e9,
         "share_of_matmul": 0.25, "times_faster_than": {"dgl": 12.345}},
        {"name": "triton", "reason": "cannot run"},
    ]  # fmt: skip
    return make("attention", problem=problem, rows=rows, best="native")


def test_attention_table_and_frontier_table() -> None:
    table = markdown("attention", attention(1.0), attention(0.25), make("scaling"))
    [_, only] = cells(table)
    assert only == [
        "`window:3\\|global:0`", "8x400", "128", "100.00%", "2.00", "5.00", "25.00%", "12.3",
        "native", "Abacus 9, 2 threads", "`graphut bench attention`",
    ]  # fmt: skip
    [_, only] = cells(markdown("frontier", attention(1.0), attention(0.25)))
    assert only[3] == "25.00%"


def test_attention_table_has_cold_calls_by_themselves() -> None:
    cold = {**attention(1.0), "cold": True}
    assert markdown("attention", cold).startswith("Not measured yet")
    assert len(cells(markdown("cold", attention(1.0), cold))) == 2


def test_attention_table_leaves_out_kernels_that_did_not_run() -> None:
    assert markdown("attention", attention(1.0, "cuda:0")).startswith("Not measured yet: `graphut")


def test_gpu_table() -> None:
    assert markdown("gpu").startswith("Not measured yet: `python -m graphut.experiments.bench.gpu")
    figures = {"copy, GB/s": 2345.6, "same bits twice": True, "failed": "RuntimeError: too large"}
    table = markdown("gpu", make("gpu", rows=[{"section": "ceilings", "figures": figures}]))
    _, *rows = cells(table)
    assert [each[:3] for each in rows] == [
        ["ceilings", "copy, GB/s", "2346"],
        ["ceilings", "same bits twice", "True"],
        ["ceilings", "failed", "RuntimeError: too large"],
    ]


def test_model_table() -> None:
    measured = {"topology": "causal", "sizes": "8x400", "dim": 8, "pass": "forward",
                "halting": "schedule", "reason": None, "dense_seconds": SECONDS,
                "adaptive_seconds": SECONDS, "speed_up": 1.5, "bound_by_flops": 3.0,
                "share_of_bound": 0.5, "memory_ratio": None}  # fmt: skip
    failed = {**measured, "pass": "backward", "reason": "too large", "speed_up": None}
    table = markdown("model", make("model", rows=[measured, failed]))
    found = row(table, "`causal`", "8x400", "8", "forward")
    assert (found["x faster"], found["share"]) == ("1.50", "50.00%")
    assert "x less memory" not in found  # which was not measured in any row
    assert row(table, "`causal`", "8x400", "8", "backward")["dense ms"] == "too large"


def test_scaling_table() -> None:
    rows = [{"nodes": nodes, "seconds": SECONDS} for nodes in (10, 1000)]
    content = {"topology": "causal", "dim": 8, "time_slope": 1.0312, "memory_slope": None}
    found = row(markdown("scaling", make("scaling", rows=rows, **content)), "`causal`")
    assert (found["tokens"], found["slope of time"]) == ("10 to 1000", "1.03")
    assert "slope of memory" not in found


def test_layers_table() -> None:
    problem = {"nodes": 17_000, "edges": 120_000, "power_law": True, "seeds": 1024}
    rows = [
        {"name": "DotGATConv", "seconds": SECONDS, "peak_bytes": 3 << 20,
         "times_faster_than": {"dgl GATConv": 2.5}},
        {"name": "dgl GATConv", "seconds": SECONDS, "peak_bytes": None,
         "times_faster_than": {"dgl GATConv": 1.0}},
    ]  # fmt: skip
    table = markdown("layers", make("layers", problem=problem, rows=rows))
    graph = "17,000 nodes, 120,000 edges, power law, sampled blocks for 1,024 nodes"
    found = row(table, graph, "DotGATConv")
    assert (found["ms"], found["peak MiB"], found["x dgl GATConv"]) == ("2.00", "3.00", "2.50")
    assert row(table, graph, "dgl GATConv")["peak MiB"] == "-"


@pytest.mark.parametrize("name", sorted({*BENCHMARK_TABLES} - {"gpu"}))
def test_tables_without_records_name_a_command(name: str) -> None:
    assert markdown(name).startswith("Not measured yet: `graphut bench ")
