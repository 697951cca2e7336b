from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copytree


def test_report_writes_a_page(
    finished_run: Path, tmp_path: Path, output: Callable[..., str]
) -> None:
    out = tmp_path / "report.html"
    out.write_text("of an older model")
    assert output("report", str(finished_run), "--out", str(out), "--device", "cpu") == f"{out}\n"
    page = out.read_text()
    assert page.startswith("<!doctype html>") and "Repeat the run" in page


def test_report_needs_an_evaluation(
    finished_run: Path, tmp_path: Path, refusal: Callable[..., str]
) -> None:
    folder = copytree(finished_run, tmp_path / "run")
    (folder / "evaluation-test.json").unlink()
    found = refusal("report", str(folder), "--out", str(tmp_path / "a.html"))
    assert "has no evaluation: graphut eval" in found
