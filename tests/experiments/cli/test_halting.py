from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from graphut.experiments.cli import main
from graphut.experiments.cli.halting import WAYS
from graphut.experiments.training import Run

SMALL = shlex.split(
    "--epoch-size 8 --held-out 3 --sizes 3-6 --test-sizes 9 --test-nodes 18 --batch-size 8 "
    "--d-model 8 --num-heads 2 --d-hidden 8 --epochs 1 --device cpu"
)


def test_halting_compare_trains_each_way_and_prints_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["halting", "compare", "graph-distance", "--out", str(tmp_path), *SMALL]
    assert main([*argv, "--seeds", "1", "2", "--max-steps", "20"]) == 0
    out = capsys.readouterr().out
    head, _, *rows = out.splitlines()
    assert head.startswith("| set | halting | answers right | graphs right | mean steps |")
    cells = [row.strip("| ").split(" | ") for row in rows]
    assert {tuple(own[:2]) for own in cells} == {
        (name, way) for name in ("test", "near-9") for way in WAYS
    }
    assert all(" ± " in own[2] for own in cells)
    rules = {way: Run.open(tmp_path / f"{way}-seed2").model().rule.spec() for way in WAYS}
    assert rules["act"] == "act" and rules["ponder_net"] == "ponder_net"
    assert rules["threshold"].startswith("fixed")
    assert main([*argv, "--ways", "act", "--seeds", "1"]) == 0  # the run is there already
    again = capsys.readouterr().out.splitlines()[2:]
    assert len(again) == 2 and all(row.split(" | ")[1] == "act" for row in again)


def test_halting_compare_refuses_tasks_without_graphs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["halting", "compare", "sort", "--out", str(tmp_path)]) == 2
    assert "sort is no task over graphs" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["halting", "compare", "graph-distance", "--ways", "oak", "--out", str(tmp_path)])
    assert "invalid choice: 'oak'" in capsys.readouterr().err
