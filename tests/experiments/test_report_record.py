import json
from pathlib import Path
from shutil import copytree

import pytest
import torch

from graphut._files import read_json
from graphut.experiments.cli import main
from graphut.experiments.records import describe_machine
from graphut.experiments.report import RunRecord
from graphut.experiments.training import Run
from graphut.experiments.training.run_files import METRICS, read_metrics

pytestmark = pytest.mark.usefixtures("tiny_presets")


def record_of(folder: Path) -> RunRecord:
    return RunRecord.of(Run.open(folder))


@pytest.fixture
def copied(runs: dict[str, Path], tmp_path: Path) -> Path:
    return Path(copytree(runs["small"], tmp_path / "my run"))


def test_run_record_of_a_folder(runs: dict[str, Path]) -> None:
    run = Run.open(runs["fixed"])
    record = RunRecord.of(run)
    lines = read_metrics(runs["fixed"] / METRICS)
    command = "graphut train sort --preset fixed --max-steps 1 --seed 0 --out RUN"
    assert record.command == command
    assert record.weights == sum(p.numel() for p in run.model().parameters())
    progress = record.progress
    assert (progress.epoch, progress.update) == (2, 4) == (len(lines), lines[-1]["update"])
    assert record.end == "all epochs are done"
    assert record.training_accuracy == lines[-1]["accuracy"]
    best = max((line["validation"] for line in lines), key=lambda v: v["token_accuracy"])
    assert lines[progress.best_epoch - 1]["validation"] == best == progress.best.metrics
    found = read_json(runs["fixed"] / "evaluation-test.json")
    assert {**record.evaluations["test"], "set": "test"} == found
    assert found["flops_share"] == 1


def test_run_record_of_a_stopped_run_and_of_one_that_lost_its_first_lines(copied: Path) -> None:
    [first, last] = read_metrics(copied / METRICS)
    (copied / METRICS).write_text(json.dumps({**first, "seconds": 61.0}) + "\n")
    record = record_of(copied)
    assert (record.end, record.progress.epoch) == (None, 1)
    (copied / METRICS).write_text(json.dumps(last) + "\n")
    progress = record_of(copied).progress
    assert (progress.epoch, progress.best_epoch) == (2, 2)
    assert progress.best is not None and progress.best.metrics == last["validation"]


def test_run_record_needs_an_epoch_and_an_evaluation(copied: Path) -> None:
    (copied / "evaluation-test.json").write_text("{}")
    with pytest.raises(ValueError, match=r"evaluation-test\.json is no evaluation"):
        _ = record_of(copied).evaluations
    (copied / "evaluation-test.json").unlink()
    with pytest.raises(ValueError, match=r"has no evaluation: graphut eval '.*my run'"):
        _ = record_of(copied).evaluations
    (copied / METRICS).unlink()
    with pytest.raises(ValueError, match="no epoch is complete yet"):
        record_of(copied)


def test_run_record_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    folder, text = tmp_path / "run", tmp_path / "input.txt"
    text.write_text("to be or not to be " * 20)
    argv = ["train", "char-lm", "--data", str(text), "--window", "8", "--epoch-size", "8"]
    assert main([*argv, "--epochs", "1", "--device", "cpu", "--out", str(folder)]) == 0
    record = record_of(folder)
    assert "--data DATA/input.txt" in (command := record.command)
    assert str(tmp_path) not in str([command, record.row("test", {}, {})])


def test_run_record_row_has_the_machine_and_no_lists(copied: Path) -> None:
    row = record_of(copied).row("test", {"beam_size": 4}, {"examples": 4, "by_length": []})
    assert describe_machine(torch.device("cpu")).items() <= row.items()
    assert (row["eval_options"], row["examples"]) == ("--beam-size 4", 4) and "by_length" not in row
