from functools import cache
from pathlib import Path
from shutil import copytree

import pytest
import torch

from graphut._files import read_json, write_json
from graphut.experiments.cli import main
from graphut.experiments.messages import percent
from graphut.experiments.report import RunRecord, run_report
from graphut.experiments.training import Run
from tests.experiments.html_page import Page

CPU = torch.device("cpu")
TINY = ["--d-model", "8", "--num-heads", "2", "--d-hidden", "8", "--epochs", "2", "--device", "cpu"]
TINY += ["--max-steps", "3"]


pytestmark = pytest.mark.usefixtures("tiny_presets")


@cache
def report_of(folder: Path) -> tuple[str, Page]:
    html = run_report(Run.open(folder), CPU)
    page = Page(html)
    assert len(page.pictures) > 2  # the curves
    assert all(str(x["src"]).startswith("data:image/png;base64,") for x in page.pictures)
    assert all(x["alt"] and x["width"] for x in page.pictures)
    return html, page


def cell(name: str, value: float) -> str:
    """The text of a value in a table: accuracies are percentages."""
    return percent(value) if name.endswith("accuracy") else f"{value:.4g}"


def test_run_report_has_the_numbers_of_the_record(runs: dict[str, Path]) -> None:
    folder = runs["small"]
    record, page = RunRecord.of(Run.open(folder)), report_of(folder)[1]
    head, *rows = page.tables["Metrics"]
    found = dict(zip(head, *rows, strict=True))
    evaluation = record.evaluations["test"]
    assert found["test set"] == "test" and int(found["sequences"]) == evaluation["examples"] == 4
    for metric, meaning in Run.open(folder).learner_kind.metric_meanings.items():
        assert found[metric.replace("_", " ")] == cell(metric, evaluation[metric])
        assert meaning in page.text
    _, *rows = page.tables["test, by source length"]
    expected = [[cell(*each) for each in row.items()] for row in evaluation["by_source_length"]]
    assert rows == expected
    assert f"{record.weights:,} weights" in page.text
    assert f"epoch {record.progress.best_epoch} of 2" in page.text and "4 updates" in page.text
    assert record.command in page.text


def test_run_report_shows_the_first_answers_and_the_worst(runs: dict[str, Path]) -> None:
    page = report_of(runs["small"])[1]
    run = Run.open(runs["small"])
    answers = run.learner(run.model()).answers(run.task().test)
    assert all(str(answer) in page.text for answer in answers[:3])
    wrong = [answer for answer in answers if not answer.is_correct]
    assert len(page.tables[f"Worst answers, {len(wrong)} of {len(answers)}"]) == 1 + len(wrong) > 1


def test_run_report_shows_the_options_that_differ(runs: dict[str, Path]) -> None:
    page = report_of(runs["fixed"])[1]
    assert page.tables["Options"] == [["option", "value"], ["max_steps", "1"]]
    assert "The preset fixed, except" in page.text
    small = report_of(runs["small"])[1]
    assert "Options" not in small.tables and "The preset small;\nrun.json and" in small.text


def test_run_report_shows_a_script_in_the_data_as_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"{'a ' * n}{evil} b\t{evil} {'a ' * n}\n" for n in range(12)))
    folder = tmp_path / "run"
    assert main(["train", "pairs", "--data", str(data), "--out", str(folder), *TINY]) == 0
    html, page = report_of(folder)
    assert "<script" not in html and evil in page.text
    assert "--data DATA/pairs.tsv" in page.text and "is the folder of your copy" in page.text
    assert str(tmp_path) not in html


def test_run_report_of_graphs(tmp_path: Path) -> None:
    argv = ["--epoch-size", "16", "--held-out", "12", "--sizes", "2-9", "--test-sizes", "12"]
    argv += ["--test-nodes", "24", "--batch-size", "8", "--out", str(tmp_path / "run")]
    assert main(["train", "graph-distance", *argv, *TINY]) == 0
    assert main(["eval", str(tmp_path / "run"), "--max-steps", "5"]) == 0
    page = report_of(tmp_path / "run")[1]
    assert [row[0] for row in page.tables["Metrics"][1:]] == [
        "near-12 --max-steps 5", "test", "test --max-steps 5",
    ]  # fmt: skip
    by_depth = read_json(tmp_path / "run" / "evaluation-test.json")["by_depth"]
    assert len(page.tables["test, by depth"]) == 1 + len(by_depth)
    assert "Confusion matrix" in page.tables
    assert "without a wrong answer" in page.text
    assert "Spearman" not in page.text  # all nodes take all steps: there is no correlation


def test_run_report_of_a_run_that_is_not_finished(runs: dict[str, Path], tmp_path: Path) -> None:
    folder = copytree(runs["small"], tmp_path / "run")
    state = read_json(folder / "run.json")
    state["training"]["epochs"] = 9
    write_json(folder / "run.json", state)
    text = " ".join(report_of(folder)[1].text.split())
    assert "was stopped before its end, 9 epochs" in text and "--epochs 9 " in text
