from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
from PIL import Image

from graphut.experiments.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "wave.py"


def test_it_draws_a_frame_for_each_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out = str(tmp_path / "run"), tmp_path / "wave.gif"
    tiny = ["--epochs", "1", "--epoch-size", "32", "--held-out", "4", "--test-sizes", ""]
    assert main(["train", "graph-distance", "--preset", "waking", "--out", run, *tiny]) == 0
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), run, "--side", "3", "--out", str(out)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    accuracy, rounds = capsys.readouterr().out.splitlines()
    assert accuracy.startswith("node accuracy ") and rounds.endswith(("True", "False"))
    with Image.open(out) as picture:
        assert picture.n_frames == min(int(rounds.split()[0]), 36) + 1
