from __future__ import annotations

import json

import pytest

from graphut.experiments.bench import ComparisonReport, ComparisonRow
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.topology import parse


def row(spec: str, *accuracies: float) -> ComparisonRow:
    found = [PairLearner.evaluation(share, (1 + share) / 2, 1.5, 2.5) for share in accuracies]
    return ComparisonRow(parse(spec), 225.0, 0.0123, found)


@pytest.fixture
def report() -> ComparisonReport:
    rows = [row("complete", 1.0, 0.5), row("window:1|global:0", 0.25, 0.25)]
    return ComparisonReport("sort", "encoder", [0, 7], 40, rows, {"threads": 1})


def test_the_table(report: ComparisonReport) -> None:
    title, _, head, first, second = report.text().splitlines()
    assert title == "encoder topologies on sort, at most 40 epochs, seeds 0 and 7"
    assert head.split("  ")[0] == "encoder topology"
    assert first.split("  ")[0] == "complete"
    assert "75.00% ± 35.36  87.50% ± 17.68    225        12.3" in first
    assert second.endswith("12.3    1.50 ± 0.00    2.50 ± 0.00")


def test_one_seed_has_no_deviation() -> None:
    cells = row("star", 0.5).cells()
    assert cells == ["star", "50.00%", "75.00%", "225", "12.3", "1.50", "2.50"]


def test_the_json(report: ComparisonReport) -> None:
    found = json.loads(json.dumps(report.to_dict()))
    assert (found["task"], found["part"], found["seeds"]) == ("sort", "encoder", [0, 7])
    assert found["rows"][1]["topology"] == "window:1|global:0"
    assert found["rows"][0]["evaluations"][1]["sequence_accuracy"] == 0.5
    assert found["rows"][0]["seconds"] == 0.0123 and found["machine"] == {"threads": 1}
