import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.experiments.training.together import run_together

SCRIPT = Path(__file__).parents[2] / "examples" / "benchmarks" / "parts.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    # A fork waits for ever for the threads of its parent.
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    monkeypatch.syspath_prepend(SCRIPT.parent)
    return runpy.run_path(str(SCRIPT))


def test_bench_parts_compares_and_counts_bytes(script: dict[str, Any], tmp_path: Path) -> None:
    def check() -> None:
        rows = script["bench_parts"]("grid", 60, dim=4, heads=2, repeats=1)
        names = ["1 process, 2 threads", "2 processes, 1 thread"]
        assert [row["contender"] for row in rows[:2]] == names
        assert all(row["ms"] > 0 for row in rows[:2])
        sent = [row["value"] for row in rows[2:]]
        assert len(sent) == 8 and sent == sorted(sent, reverse=True) and sent[0] > sent[-1]

    run_together(check, tmp_path)
