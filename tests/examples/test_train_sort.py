from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from graphut.experiments.tasks import Sort
from graphut.experiments.training import TrainingConfig

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_sort.py"


def test_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(EXAMPLE))["main"]
    task = Sort(mean_length=3, epoch_size=64, held_out=4)
    main(task, TrainingConfig(epochs=1), str(tmp_path))
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("test: ") and lines[-1].startswith("quickly -> ")
    main(task, TrainingConfig(epochs=1), str(tmp_path))
    again = capsys.readouterr().out.splitlines()
    assert again[0].startswith("resumed after update 1, 1 epoch and 0 batches")
    assert again[-2:] == lines[-2:]
