from collections.abc import Callable
from pathlib import Path


def test_report_writes_a_page(
    finished_run: Path, tmp_path: Path, output: Callable[..., str]
) -> None:
    out = tmp_path / "report.html"
    out.write_text("of an older model")
    assert output("report", str(finished_run), "--out", str(out), "--device", "cpu") == f"{out}\n"
    page = out.read_text()
    assert page.startswith("<!doctype html>") and "Repeat the run" in page
