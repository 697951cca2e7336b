from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from tests.conftest import DATA

EXAMPLE = Path(__file__).parents[2] / "examples" / "node_classification_cora.py"
pytestmark = pytest.mark.data


def test_it_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    data = ["--data", str(DATA / "cora" / "cora.npz")]
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *data, "--seeds", "1", "--epochs", "3"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    names = ["adaptive", "GATConv", "DotGatConv"]
    seeded = [x for name in names for x in (f"{name}, seed 0", name)]
    assert [line.partition(":")[0] for line in lines[:6]] == seeded
    first = lines.index("papers by number of steps, last run of the adaptive model:")
    histogram = [line.split() for line in lines[first + 1 :] if line.startswith("  ")]
    papers = [int(count) for depth, count, *_ in histogram if depth.endswith(":")]
    assert sum(papers) == 2708
    second = lines.index("rank correlation of depth")
    found = [float(line.split(": ")[1]) for line in lines[second + 1 :]]
    assert len(found) == 5 and all(-1 <= value <= 1 for value in found)
