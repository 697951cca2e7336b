from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from graphut.experiments.results.line_chart import Chart, Panel, Series

pytest.importorskip("matplotlib")
SERIES = [Series("a", [(0, 1), (1, 2)]), Series("b", [(0.5, 1)])]
CHART = Chart("all", [Panel("one", "x", "y", SERIES)] * 4)


def test_chart_is_drawn_tells_other_data(tmp_path: Path) -> None:
    path = tmp_path / "chart.png"
    assert not CHART.is_drawn(path)
    CHART.save(path)
    assert path.read_bytes().startswith(b"\x89PNG") and CHART.is_drawn(path)
    other = replace(CHART, panels=[Panel("one", "x", "y", [Series("a", [(0, 1), (1, 2.001)])])])
    assert not other.is_drawn(path)


def test_chart_save_is_reproducible(tmp_path: Path) -> None:
    for name in ("a", "b"):
        CHART.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
