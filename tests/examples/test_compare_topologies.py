from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from graphut.experiments.tasks import Reverse
from graphut.experiments.training import TrainingConfig

EXAMPLE = Path(__file__).parents[2] / "examples" / "compare_topologies.py"


def test_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(EXAMPLE))
    task = Reverse(mean_length=3, epoch_size=8, held_out=2)
    rows = example["main"](task, TrainingConfig(epochs=1), str(tmp_path))
    assert [row.topology for row in rows] == example["WINDOWS"] + example["SHORTCUTS"]
    assert "\nencoder topology " in capsys.readouterr().out
    assert (tmp_path / "edges.png").read_bytes().startswith(b"\x89PNG")
