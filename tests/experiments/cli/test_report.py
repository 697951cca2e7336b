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


def test_report_says_what_is_wrong_in_one_line(
    finished_run: Path, tmp_path: Path, refusal: Callable[..., str]
) -> None:
    def said(folder: Path, out: str) -> str:
        return refusal("report", str(folder), "--out", str(tmp_path / out))

    assert "there is no run in" in said(tmp_path, "a.html")
    assert "must end with .html" in said(finished_run, "a.png")
    assert "make its folder" in said(finished_run, "nowhere/a.html")
    assert not list(tmp_path.iterdir())
    folder = copytree(finished_run, tmp_path / "run")
    (folder / "evaluation-test.json").unlink()
    assert "has no evaluation: graphut eval" in said(folder, "a.html")
