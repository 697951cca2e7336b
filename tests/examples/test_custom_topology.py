from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from graphut.experiments.tasks import Sort
from graphut.experiments.training import TrainingConfig
from graphut.topology import parse

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_topology.py"


def test_it_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(EXAMPLE))["main"]
    task = Sort(mean_length=3, epoch_size=64, held_out=4)
    main(task, TrainingConfig(epochs=1), str(tmp_path / "run"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "202 edges among 24 tokens, diameter 3"
    assert lines[-1].startswith("test: ")
    assert (tmp_path / "run" / "powers.png").read_bytes().startswith(b"\x89PNG")
    mask = parse("powers").mask(9)
    assert mask[0].nonzero().flatten().tolist() == [0, 1, 2, 4, 8]
    assert mask[5].nonzero().flatten().tolist() == [1, 3, 4, 5, 6, 7]
    main(task, TrainingConfig(epochs=1), str(tmp_path / "run"))
    assert "resumed after update 1, 1 epoch and 0 batches" in capsys.readouterr().out
