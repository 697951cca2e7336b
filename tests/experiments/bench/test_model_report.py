from __future__ import annotations

import json

import pytest

from graphut.experiments.bench import ModelProblem, Sizes
from graphut.experiments.bench.model_report import ModelReport, ModelRow
from graphut.experiments.bench.timing import Times
from graphut.topology import Causal

MIB = 1 << 20


@pytest.fixture
def report() -> ModelReport:
    problem = ModelProblem(topology=Causal(), sizes=Sizes(8, 400, 400))
    dense, adaptive = Times(0.3, 0.3, 0.3), Times(0.1, 0.1, 0.1)
    good = ModelRow(problem, "forward", 2e-7, 4.0, dense, adaptive, 32 * MIB, 20 * MIB)
    bad = ModelRow(problem, "forward+backward", 0.03, 4.0, reason="wrong by 3e-02")
    return ModelReport([good, bad], {"threads": 2})


def test_the_table(report: ModelReport) -> None:
    head, good, bad = report.text().splitlines()
    assert "dense ms" in head and "of the bound" in head and "less memory" in head
    assert good.split() == [
        "8x400", "causal", "128", "schedule", "forward", "300", "100", "3.00", "4.00", "75%",
        "32.0", "20.0", "1.60", "2e-07",
    ]  # fmt: skip
    assert bad.startswith("8x400 causal") and bad.endswith("  wrong by 3e-02")


def test_the_json(report: ModelReport) -> None:
    good, bad = json.loads(json.dumps(report.to_dict()))["rows"]
    assert good["speed_up"] == pytest.approx(3.0) and good["share_of_bound"] == pytest.approx(0.75)
    assert good["memory_ratio"] == 1.6 and good["adaptive_seconds"]["median"] == 0.1
    assert bad["reason"] == "wrong by 3e-02" and bad["speed_up"] is None


def test_memory_that_is_not_known(report: ModelReport) -> None:
    report.rows[0].dense_peak = None
    assert report.rows[0].memory_ratio is None
    assert report.rows[0].cells()[9] == "?" and report.rows[0].cells()[11] == "?"


def test_reports_add_up(report: ModelReport) -> None:
    assert (report + report).rows == report.rows * 2
