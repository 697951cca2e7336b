import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphut.experiments.cli import plot
from graphut.experiments.training.run_files import METRICS, read_metrics
from graphut.plotting import draw_training


def test_plot_draws_the_metrics_of_runs(
    finished_run: Path, tmp_path: Path, output: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(
        plot, "draw_training", lambda runs: drawn.append(runs) or draw_training(runs)
    )
    other, out = Path(shutil.copytree(finished_run, tmp_path / "other")), tmp_path / "curves.png"
    assert output("plot", str(finished_run), str(other), "--out", str(out)) == f"{out}\n"
    assert out.read_bytes().startswith(b"\x89PNG")
    lines = read_metrics(finished_run / METRICS)
    assert drawn == [{"sort": lines, "other": lines}] and lines[0]["active"]["encoder"][0] == 1
    same_name = other.rename(tmp_path / finished_run.name)
    output("plot", str(finished_run), str(same_name), "--out", str(tmp_path / "a.svg"))
    assert [*drawn[1]] == [str(finished_run), str(same_name)]
