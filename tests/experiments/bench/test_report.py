from __future__ import annotations

from typing import Any

from graphut.experiments.bench.report import Report, report_text
from tests.experiments.bench.cases import problem

MIB = 1 << 20


def times(lower: float, median: float, upper: float) -> dict[str, float]:
    return {"lower": lower, "median": median, "upper": upper}


def attention_row(name: str, seconds: dict[str, float], **figures: Any) -> dict[str, Any]:
    speed = problem().flops / seconds["median"]
    return {"name": name, "backend": True, "reason": None, "seconds": seconds, "error": 3e-7,
            "peak_bytes": None, "flops_per_second": speed, "share_of_matmul": speed / 1e9,
            "times_faster_than": {"dgl": 4.0, "padded": 2.0}, **figures}  # fmt: skip


def attention(**changes: Any) -> Report:
    rows = [
        attention_row("dgl", times(0.03, 0.04, 0.05), peak_bytes=10 * MIB),
        attention_row("torch", times(0.009, 0.01, 0.011), peak_bytes=5 * MIB),
        {"name": "native", "backend": True, "error": 0.03, "reason": "wrong by 3e-02"},
        attention_row("padded", times(0.02, 0.02, 0.02), backend=False),
        {"name": "pyg", "reason": "not installed: pip install torch_geometric"},
    ]
    return {
        "bench": "attention", "problem": problem(**changes).to_dict(), "best": "torch",
        "machine": {"threads": 2}, "matmul_flops_per_second": 1e9, "rows": rows,
    }  # fmt: skip


def test_report_text_of_attention() -> None:
    title, _, head, *rows, _, matmul, best = report_text(attention()).splitlines()
    case = problem()
    assert title == (
        f"causal on 3x2-7 tokens: {case.edges} edges, 8 features in 2 heads, float64; "
        "forward and backward; cpu, 2 threads"
    )
    names = "ms  quartiles  peak MiB  GFLOP/s  of matmul  error  x dgl  x padded"
    assert head.split("  ")[0] == "contender" and head.split() == f"contender {names}".split()
    rate = f"{case.flops / 0.01 / 1e9:#.3g}"
    cells = [line.split() for line in rows]
    assert cells[1][:4] == ["torch", "10.0", "9.00-11.0", "5.0"]
    assert cells[1][4] == rate and cells[1][6:] == ["3e-07", "4.00", "2.00"]
    assert cells[2] == ["native", "wrong", "by", "3e-02"]
    assert cells[3][3] == "?"
    assert rows[4].endswith("  not installed: pip install torch_geometric")
    assert matmul == "matmul: 1.00 GFLOP/s (float32, 1024 x 1024)"
    assert best == "fastest backend for interval cpu float64 plain calls here: torch"


def test_report_text_without_a_right_backend() -> None:
    rows = [{"name": "native", "backend": True, "error": 0.03, "reason": "wrong by 3e-02"}]
    assert "fastest" not in report_text({**attention(), "rows": rows, "best": None})


def test_report_text_has_a_title_that_says_what_differs() -> None:
    report = attention(fraction=0.25, biased=True, forward_only=True)
    title = report_text(report).splitlines()[0]
    assert ", 25% of the rows active: " in title
    assert "with edge bias; forward; cpu" in title
    title = report_text({**attention(), "cold": True}).splitlines()[0]
    assert "forward and backward, each call after other work on 64 MB; cpu" in title


MODEL_ROW = {
    "topology": "causal", "sizes": "8x400", "dim": 128, "halting": "schedule", "pass": "forward",
    "error": 2e-7, "reason": None, "dense_seconds": times(0.3, 0.3, 0.3), "speed_up": 3.0,
    "adaptive_seconds": times(0.1, 0.1, 0.1), "bound_by_flops": 4.0, "share_of_bound": 0.75,
    "dense_peak_bytes": 32 * MIB, "adaptive_peak_bytes": 20 * MIB, "memory_ratio": 1.6,
}  # fmt: skip


def test_report_text_of_a_model() -> None:
    failed = {**MODEL_ROW, "pass": "forward+backward", "reason": "wrong by 3e-02"}
    head, good, bad = report_text({"bench": "model", "rows": [MODEL_ROW, failed]}).splitlines()
    assert "dense ms" in head and "of the bound" in head and "less memory" in head
    assert good.split() == [
        "8x400", "causal", "128", "schedule", "forward", "300", "100", "3.00", "4.00", "75%",
        "32.0", "20.0", "1.60", "2e-07",
    ]  # fmt: skip
    assert bad.startswith("8x400 causal") and bad.endswith("  wrong by 3e-02")


def test_report_text_of_memory_that_is_not_known() -> None:
    row = {**MODEL_ROW, "dense_peak_bytes": None, "memory_ratio": None}
    cells = report_text({"bench": "model", "rows": [row]}).splitlines()[1].split()
    assert cells[10] == "?" and cells[12] == "?"


def test_report_text_of_scaling() -> None:
    rows = [
        {"nodes": n, "edges": 5 * n, "seconds": times(0.9 * s, s, 1.1 * s), "peak_bytes": peak}
        for n, s, peak in [(1000, 0.01, MIB), (2000, 0.02, None)]
    ]
    report: Report = {
        "bench": "scaling", "topology": "window:2", "dim": 64, "heads": 8, "time_slope": 1.0,
        "memory_slope": None, "machine": {"threads": 2, "gpu": None}, "rows": rows,
    }  # fmt: skip
    title, _, head, first, _, _, last = report_text(report).splitlines()
    assert title == (
        "window:2 on one sentence, 64 features in 8 heads; layout and forward pass of one "
        "attention layer, float32; cpu, 2 threads"
    )
    assert head.split("  ")[0] == "nodes"
    assert first.split() == ["1,000", "5,000", "10.0", "9.00-11.0", "10000", "1.0", "1049"]
    assert last == "log-log slope: time 1.00, memory ? (1 is linear)"
