from __future__ import annotations

import json

import pytest

from graphut.experiments.bench.attention_report import AttentionReport, AttentionRow
from graphut.experiments.bench.timing import Times
from tests.experiments.bench.cases import problem

MIB = 1 << 20


@pytest.fixture
def report() -> AttentionReport:
    rows = [
        AttentionRow("dgl", True, 2e-7, Times(0.03, 0.04, 0.05), 10 * MIB),
        AttentionRow("torch", True, 3e-7, Times(0.009, 0.01, 0.011), 5 * MIB),
        AttentionRow("native", True, 3e-2, reason="wrong by 3e-02"),
        AttentionRow("padded", False, 1e-7, Times(0.02, 0.02, 0.02), None),
        AttentionRow("pyg", False, reason="not installed: pip install torch_geometric"),
    ]
    return AttentionReport(problem(), rows, 1e9, {"threads": 2})


def test_the_table(report: AttentionReport) -> None:
    title, _, head, *rows, _, matmul, best = report.text().splitlines()
    case = report.problem
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


def test_the_json(report: AttentionReport) -> None:
    found = json.loads(json.dumps(report.to_dict()))
    assert found["best"] == "torch" and found["machine"] == {"threads": 2}
    assert found["problem"]["topology"] == "causal" and found["problem"]["dtype"] == "float64"
    rows = {row["name"]: row for row in found["rows"]}
    assert rows["torch"]["seconds"] == {"lower": 0.009, "median": 0.01, "upper": 0.011}
    assert rows["torch"]["times_faster_than"] == {"dgl": 4.0, "padded": 2.0}
    assert rows["torch"]["share_of_matmul"] == rows["torch"]["flops_per_second"] / 1e9
    assert rows["native"] == {
        "name": "native", "backend": True, "error": 0.03, "reason": "wrong by 3e-02",
    }  # fmt: skip


def test_an_infinite_error_is_left_out_of_the_json(report: AttentionReport) -> None:
    report.rows[2].error = float("inf")
    assert report.to_dict()["rows"][2]["error"] is None


def test_a_peer_is_never_the_best_backend(report: AttentionReport) -> None:
    report.rows[3].times = Times(0.001, 0.001, 0.001)
    assert report.best == "torch"


def test_no_backend_is_right(report: AttentionReport) -> None:
    for row in report.rows:
        row.times = None
    assert report.best is None and "fastest" not in report.text()


def test_the_title_says_what_differs() -> None:
    case = problem(fraction=0.25, biased=True, forward_only=True)
    title = AttentionReport(case, [], 1e9, {"threads": 1}).text().splitlines()[0]
    assert ", 25% of the rows active: " in title
    assert "with edge bias; forward; cpu" in title
