from __future__ import annotations

import pytest

from graphut.experiments.bench import ComparisonReport, ComparisonRow
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.plotting import draw_comparison
from graphut.topology import parse

SPECS = ["complete", "window:1|global:0,1,2,3,4,5,6,7,8,9"]


def report(*seeds: int) -> ComparisonReport:
    evaluations = [PairLearner.evaluation(0.5 + 0.1 * seed, 0.75, 1.5, 2.5) for seed in seeds]
    rows = [ComparisonRow(parse(spec), 100.0, 0.02, evaluations) for spec in SPECS]
    return ComparisonReport("sort", "encoder", seeds, 10, rows, {})


def test_bars_are_means_and_dots_are_seeds() -> None:
    accuracy, edges, time, steps = draw_comparison(report(0, 1)).axes
    widths = [[bar.get_width() for bar in axes.patches] for axes in (edges, time)]
    assert widths == [[100, 100], [20, 20]]
    assert [bar.get_width() for bar in accuracy.patches] == pytest.approx([55, 55, 75, 75])
    assert [bar.get_width() for bar in steps.patches] == pytest.approx([1.5, 1.5, 2.5, 2.5])
    assert accuracy.lines[0].get_xdata() == pytest.approx([50, 60])
    assert not edges.lines


def test_topologies_go_from_top_to_bottom() -> None:
    figure = draw_comparison(report(0))
    accuracy = figure.axes[0]
    labels = [label.get_text() for label in accuracy.get_yticklabels()]
    assert labels == ["complete", "window:1|global:0,1,2,3,4,5,6..."]
    bottom, top = accuracy.get_ylim()
    assert bottom > top and not accuracy.lines
    assert figure.get_suptitle() == report(0).title
