from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "sampled_blocks.py"


@pytest.mark.filterwarnings("ignore:Dataloader CPU affinity")
def test_it_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    argv = [str(EXAMPLE), "--nodes", "2000", "--seeds", "600", "--epochs", "1"]
    monkeypatch.setattr(sys, "argv", argv)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("epoch 1: ") and line.endswith(" steps")
