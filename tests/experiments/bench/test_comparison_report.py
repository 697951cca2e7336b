from __future__ import annotations

import json

import pytest

from graphut.experiments.bench.comparison_report import ComparisonReport, ComparisonRow
from graphut.experiments.training import PairEvaluation
from graphut.topology import parse


def row(spec: str, *accuracies: float) -> ComparisonRow:
    found = [PairEvaluation(share, (1 + share) / 2, 1.5, 2.5) for share in accuracies]
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


SPECS = ["complete", "window:1|global:0,1,2,3,4,5,6,7,8,9"]


def make_report(*seeds: int) -> ComparisonReport:
    evaluations = [PairEvaluation(0.5 + 0.1 * seed, 0.75, 1.5, 2.5) for seed in seeds]
    rows = [ComparisonRow(parse(spec), 100.0, 0.02, evaluations) for spec in SPECS]
    return ComparisonReport("sort", "encoder", seeds, 10, rows, {})


def test_bars_are_means_and_dots_are_seeds() -> None:
    accuracy, edges, time, steps = make_report(0, 1).draw().axes
    widths = [[bar.get_width() for bar in axes.patches] for axes in (edges, time)]
    assert widths == [[100, 100], [20, 20]]
    assert [bar.get_width() for bar in accuracy.patches] == pytest.approx([55, 55, 75, 75])
    assert [bar.get_width() for bar in steps.patches] == pytest.approx([1.5, 1.5, 2.5, 2.5])
    assert accuracy.lines[0].get_xdata() == pytest.approx([50, 60])
    assert not edges.lines


def test_topologies_go_from_top_to_bottom() -> None:
    figure = make_report(0).draw()
    accuracy = figure.axes[0]
    labels = [label.get_text() for label in accuracy.get_yticklabels()]
    assert labels == ["complete", "window:1|global:0,1,2,3,4,5,6..."]
    bottom, top = accuracy.get_ylim()
    assert bottom > top and not accuracy.lines
    assert figure.get_suptitle() == make_report(0).title
