from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "image_local_attention.py"


def test_it_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--epochs", "1", "--images", "100"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("epoch 1: loss ")
    assert "on 20 digits" in lines[1]
    assert len(lines) == 3 + 8
