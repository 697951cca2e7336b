from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from graphut.experiments.tasks import Copy

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_copy.py"


def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(EXAMPLE))["main"]
    main(Copy(mean_length=3, epoch_size=64, held_out=4), epochs=2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["epoch 1", "epoch 2", "test"]
