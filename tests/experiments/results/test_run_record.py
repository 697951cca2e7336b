from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphut._files import read_json, write_json
from graphut.experiments.cli import main
from graphut.experiments.machine import describe_machine
from graphut.experiments.results.run_record import MOST_EPOCHS, RunRecord, rounded, thinned
from graphut.experiments.training import Run
from graphut.experiments.training.run_files import METRICS, read_machines, read_metrics
from tests.experiments.results.tiny import make_record


def test_run_record_of_a_folder(runs: dict[str, Path]) -> None:
    record, run = RunRecord.of(runs["fixed"]), Run.open(runs["fixed"])
    lines = read_metrics(runs["fixed"] / METRICS)
    assert record.name == "sort-max_steps-1-fixed-seed0"
    assert record.commands == ["graphut train sort --preset fixed --max-steps 1 --seed 0 --out RUN"]
    assert record.training == vars(run.training)
    assert record.model == run.model().config.to_dict()
    assert record.weights == sum(p.numel() for p in run.model().parameters())
    assert (record.epochs, record.updates) == (2, 4) == (len(lines), lines[-1]["update"])
    assert record.end == "all 2 epochs are done"
    assert record.metrics["loss"] == pytest.approx([line["loss"] for line in lines], rel=1e-5)
    assert record.machines == [describe_machine(run.model().device)]
    best = max((line["validation"] for line in lines), key=lambda v: v["token_accuracy"])
    assert record.validation["token_accuracy"] == pytest.approx(best["token_accuracy"], rel=1e-5)
    assert lines[record.best_epoch - 1]["validation"] == best
    found = read_json(runs["fixed"] / "evaluation-test.json")
    assert record.evaluations["test"]["flops_per_example"] == pytest.approx(
        found["flops_per_example"], rel=1e-5
    )
    assert record.evaluations["test"]["flops_share"] == 1


def test_run_record_from_dict_reads_to_dict(runs: dict[str, Path]) -> None:
    record = RunRecord.of(runs["small"])
    state = json.loads(json.dumps(record.to_dict()))
    assert RunRecord.from_dict(record.name, state) == record


def test_run_record_of_a_stopped_run(runs: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(copytree(runs["small"], tmp_path / "run"))
    [first, _] = read_metrics(folder / METRICS)
    (folder / METRICS).write_text(json.dumps({**first, "seconds": 61.0}) + "\n")
    record = RunRecord.of(folder)
    assert (record.end, record.epochs) == (None, 1)
    train, judge = record.commands
    assert train.endswith("--out RUN --minutes 2")
    assert judge == "graphut eval RUN"


def test_run_record_of_a_run_that_lost_its_first_lines(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(copytree(runs["small"], tmp_path / "run"))
    [_, last] = (folder / METRICS).read_text().splitlines()
    (folder / METRICS).write_text(last + "\n")
    record = RunRecord.of(folder)
    assert (record.epochs, record.best_epoch) == (2, 2)
    assert record.validation == rounded(json.loads(last)["validation"])


@pytest.mark.parametrize(
    ("evaluations", "commands"),
    [
        ({"test": {}}, []),
        ({"test": {}, "hard": {}}, ["graphut eval RUN"]),
        ({"test": {"beam_size": 4}}, ["graphut eval RUN --beam-size 4"]),
        (
            {"test": {"beam_size": 4}, "hard": {}},
            ["graphut eval RUN --set test --beam-size 4", "graphut eval RUN --set hard"],
        ),
    ],
)
def test_run_record_commands_that_judge(
    evaluations: dict[str, dict[str, Any]], commands: list[str]
) -> None:
    found = {name: {"options": options} for name, options in evaluations.items()}
    assert make_record("sort", **found).commands[1:] == commands


def test_run_record_refuses_a_run_without_an_epoch(runs: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(copytree(runs["small"], tmp_path / "run"))
    (folder / METRICS).unlink()
    with pytest.raises(ValueError, match="no epoch is done yet"):
        RunRecord.of(folder)


def test_run_record_refuses_a_run_that_was_not_judged(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(copytree(runs["small"], tmp_path / "my run"))
    (folder / "evaluation-test.json").unlink()
    with pytest.raises(ValueError, match=r"has no evaluation: graphut eval '.*my run'"):
        RunRecord.of(folder)


def test_run_record_refuses_an_evaluation_of_another_model(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(copytree(runs["small"], tmp_path / "run"))
    model = Run.open(runs["small"]).model()
    model.save_pretrained(folder)
    RunRecord.of(folder)  # the same weights
    torch.nn.init.zeros_(next(model.parameters()))
    model.save_pretrained(folder)
    with pytest.raises(ValueError, match=r"another model than .*run has now was judged on test"):
        RunRecord.of(folder)
    assert main(["eval", str(folder), "--device", "cpu"]) == 0
    RunRecord.of(folder)


def test_run_record_keeps_no_folder_of_this_machine(tmp_path: Path) -> None:
    folder, text = tmp_path / "run", tmp_path / "input.txt"
    text.write_text("to be or not to be " * 20)
    argv = ["train", "char-lm", "--data", str(text), "--window", "8", "--epoch-size", "8"]
    assert main([*argv, "--epochs", "1", "--device", "cpu", "--out", str(folder)]) == 0
    found = RunRecord.of(folder)
    assert str(tmp_path) not in json.dumps(found.to_dict())
    assert "--data DATA/input.txt" in found.commands[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: {**state, "format": 0}, "it is of format 0, and this version .* reads 1"),
        (lambda state: {"a": 1}, "it is of format None"),
        (lambda state: {**state, "wings": 2}, r"no whole record .* 'wings'"),
        (lambda state: {k: v for k, v in state.items() if k != "weights"}, "weights"),
        (lambda state: {**state, "task": "fly"}, "no whole record of this version: KeyError"),
        (lambda state: {**state, "validation": {}}, "no whole record of this version"),
        (lambda state: {**state, "name": "other"}, "it is the record of 'other'"),
        (
            lambda state: {**state, "model": {**state["model"], "wings": 2}},
            "--wings is no option of the task sort",
        ),
    ],
)
def test_run_record_from_dict_refuses_bad_records(
    change: Callable[[dict[str, Any]], dict[str, Any]], message: str
) -> None:
    record = make_record("sort")
    with pytest.raises(ValueError, match=message):
        RunRecord.from_dict(record.name, change(record.to_dict()))


def test_run_record_has_all_machines(runs: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(copytree(runs["small"], tmp_path / "run"))
    machines = read_machines(folder)
    write_json(folder / "machines.json", [*machines, {**machines[0], "gpu": "Loom 1"}])
    assert [m["gpu"] for m in RunRecord.of(folder).machines] == [None, "Loom 1"]


@given(st.data())
def test_thinned_keeps_first_best_and_last(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 300))
    best = data.draw(st.integers(0, count - 1))
    lines = [{"epoch": i + 1, "validation": {"x": i / 8}} for i in range(count)]
    found = thinned(lines, best)
    epochs: list[int] = found["epoch"]
    assert len(epochs) <= MOST_EPOCHS
    assert len(epochs) >= min(count, MOST_EPOCHS - 1)
    assert epochs == sorted(set(epochs)) and {1, best + 1, count} <= set(epochs)
    assert found["validation"]["x"] == [(epoch - 1) / 8 for epoch in epochs]


def test_rounded_to_six_digits() -> None:
    value: Any = {"a": [1.23456789, 12345678, True, None], "b": {"c": 1e-9 / 3, "d": "x"}}
    assert rounded(value) == {
        "a": [1.23457, 12345678, True, None],
        "b": {"c": 3.33333e-10, "d": "x"},
    }


def test_thinned_leaves_out_what_older_versions_did_not_write() -> None:
    lines = [{"epoch": 1}, {"epoch": 2, "active": {"encoder": [1.0, 0.5]}}]
    assert thinned(lines, 0) == {"epoch": [1, 2]}


def test_thinned_refuses_epochs_that_differ() -> None:
    with pytest.raises(ValueError, match="do not have the same keys"):
        thinned([{"epoch": 1}, {"epoch": 2, "more": 1}], 0)


def test_run_record_says_why_an_epoch_was_chosen() -> None:
    record = make_record("sort")
    best = f"epoch {record.best_epoch} of {record.epochs}, the best one on the validation set"
    assert record.chosen == best
    last = replace(record, training={**record.training, "choose_by": "last"})
    assert last.chosen.endswith(", the last one")
