from collections.abc import Callable
from pathlib import Path

import pytest

from graphut.models.model_files import WEIGHTS


@pytest.mark.parametrize("name", ["run.json", "config.json", "vocabularies.json", WEIGHTS])
def test_generate_names_a_file_that_is_cut_off(
    copied_run: Path, name: str, refusal: Callable[..., str]
) -> None:
    path = copied_run / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert name in refusal("generate", copied_run, "b a")


def test_report_writes_a_page(
    finished_run: Path, tmp_path: Path, output: Callable[..., str]
) -> None:
    out = tmp_path / "report.html"
    out.write_text("of an older model")
    assert output("report", str(finished_run), "--out", str(out), "--device", "cpu") == f"{out}\n"
    page = out.read_text()
    assert page.startswith("<!doctype html>") and "Repeat the run" in page
