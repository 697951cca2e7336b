from __future__ import annotations

from pathlib import Path

import pytest

from graphut.cli import main
from graphut.training import Run, evaluate


def test_the_test_set(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(finished_run)]) == 0
    run = Run.open(finished_run)
    task = run.task()
    wanted = evaluate(run.model(), task.test, max_length=task.max_target_length)
    assert capsys.readouterr().out == f"4 sequences: {wanted}\n"


def test_other_pairs(
    finished_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.tsv"
    path.write_text("b a\ta b\nc\tc\n")
    assert main(["eval", str(finished_run), "--data", str(path)]) == 0
    assert capsys.readouterr().out.startswith("2 sequences: ")


def test_a_folder_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"graphut: there is no run in {tmp_path}")
