from collections.abc import Callable
from pathlib import Path

import pytest

from graphut.experiments.training.run_files import METRICS
from graphut.models.model_files import WEIGHTS


def test_info_describes_a_run(finished_run: Path, output: Callable[..., str]) -> None:
    text = output("info", finished_run)
    *_, command = text.splitlines()
    assert all(len(line) <= 80 for line in text.splitlines()[:-1])
    text = " ".join(text.split())
    assert text.startswith("task sort: mean_length 3.0")
    assert " weights: " in text and "d_model 8" in text and "batch_size 8" in text
    changed = "--mean-length 3.0 --length-deviation 1.0 --epoch-size 16 --held-out 4 --epochs 2 "
    assert command.startswith(f"command   graphut train sort --preset small {changed}--batch-size ")
    assert (
        "halting_gain" in text and "halting-gain" not in command and "evaluation_rule ''," in text
    )
    assert "2 epochs, 4 updates" in text and "best on the validation set" in text


@pytest.mark.parametrize("name", ["run.json", "config.json", "vocabularies.json", WEIGHTS])
def test_generate_names_a_file_that_is_cut_off(
    copied_run: Path, name: str, refusal: Callable[..., str]
) -> None:
    path = copied_run / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert name in refusal("generate", copied_run, "b a")


def test_info_of_a_run_that_has_just_begun(copied_run: Path, output: Callable[..., str]) -> None:
    (copied_run / METRICS).unlink()
    assert "progress  no epoch is complete yet" in output("info", copied_run)


def test_report_writes_a_page(
    finished_run: Path, tmp_path: Path, output: Callable[..., str]
) -> None:
    out = tmp_path / "report.html"
    out.write_text("of an older model")
    assert output("report", str(finished_run), "--out", str(out), "--device", "cpu") == f"{out}\n"
    page = out.read_text()
    assert page.startswith("<!doctype html>") and "Repeat the run" in page
