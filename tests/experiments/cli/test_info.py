from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graphut.experiments.cli import main
from graphut.experiments.training.run_files import METRICS


def test_info_describes_a_run(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(finished_run)]) == 0
    task, model, training, progress = capsys.readouterr().out.splitlines()
    assert task.startswith("task      sort: mean_length 3.0")
    assert "weights: " in model and "d_model 8" in model
    assert "batch_size 8" in training
    assert "2 epochs, 4 updates" in progress and "best on the validation set" in progress


def test_info_of_a_run_that_has_just_begun(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished_run, tmp_path / "run")
    (tmp_path / "run" / METRICS).unlink()
    assert main(["info", str(tmp_path / "run")]) == 0
    assert "progress  no epoch is done yet" in capsys.readouterr().out
