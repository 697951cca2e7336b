from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from graphut.experiments.machine import describe_machine
from graphut.experiments.training import run_files
from graphut.experiments.training.run_files import (
    MACHINES,
    append_metrics,
    drop_metrics_after,
    own_files,
    read_machines,
    read_metrics,
    remember_machine,
    remove_temporary_files,
)

CPU = torch.device("cpu")


def test_append_metrics_says_that_no_space_is_left() -> None:
    with pytest.raises(OSError, match="cannot write /dev/full: No space left on device: free some"):
        append_metrics("/dev/full", {"update": 1})


def test_remember_machine_adds_each_machine_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_machines(tmp_path) == []
    here = describe_machine(CPU)
    remember_machine(tmp_path, CPU)
    remember_machine(tmp_path, CPU)
    assert read_machines(tmp_path) == [here]

    there = here | {"cpu": "Abacus 9"}
    monkeypatch.setattr(run_files, "describe_machine", lambda device: there)
    remember_machine(tmp_path, CPU)
    assert read_machines(tmp_path) == [here, there]


def test_remember_machine_refuses_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / MACHINES).write_text("[{")
    with pytest.raises(ValueError, match=r"machines\.json is not a JSON file"):
        remember_machine(tmp_path, CPU)


def test_read_metrics_returns_what_append_metrics_wrote(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"update": 3, "loss": 0.1},
        {"update": 6, "validation": {"x": 1}},
    ]
    for line in lines:
        append_metrics(tmp_path / "metrics.jsonl", line)
    assert read_metrics(tmp_path / "metrics.jsonl") == lines


def test_read_metrics_of_no_file(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "metrics.jsonl") == []


def test_read_metrics_leaves_out_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append_metrics(path, {"update": 3})
    with path.open("a") as file:
        file.write('{"update": 6, "lo')
    assert read_metrics(path) == [{"update": 3}]


def test_read_metrics_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metrics.jsonl")
    with pytest.raises(ValueError, match=r"metrics\.jsonl is not a plain file"):
        read_metrics(tmp_path / "metrics.jsonl")


def test_remove_temporary_files_of_dead_processes_alone(tmp_path: Path) -> None:
    dead, alive = 2**22 + 1, os.getppid()
    removed = {
        f".checkpoint.safetensors.{dead}.tmp",
        f".run.json.{dead}.0123456789abcdef.tmp",
        f".evaluation-test.json.{dead}.tmp",
        f".sweep-near-100.json.{dead}.tmp",
        f".checkpoint.safetensors.{os.getpid()}.tmp",  # its number is used again
        f"..model.safetensors.{dead}.tmp.{dead}.tmp",
        f".model.safetensors.{dead}.tmp",
        f"..model.safetensors.new.{dead}.tmp",  # of older versions
        ".model.safetensors.new",
    }
    kept = {
        f".checkpoint.safetensors.{alive}.tmp",
        f".model.safetensors.{alive}.0123456789abcdef.tmp",
        f"..model.safetensors.{alive}.tmp.{alive}.tmp",
        f".note.{dead}.tmp",
        "checkpoint.safetensors",
        ".hidden",
    }
    for name in removed | kept:
        (tmp_path / name).touch()
    remove_temporary_files(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_own_files_are_those_of_a_run(tmp_path: Path) -> None:
    own = {"run.json", "target_vocabulary.json", "metrics.jsonl", "checkpoint.safetensors"}
    own.add("options.yaml")
    for name in own | {"lock", "note.json", ".run.json.12.tmp", "evaluation-test.json"}:
        (tmp_path / name).touch()
    assert own_files(tmp_path) == own


@pytest.mark.parametrize("text", ["{}", "5", "[3]", "null", '["a"]'])
def test_read_machines_refuses_what_is_no_list_of_machines(tmp_path: Path, text: str) -> None:
    (tmp_path / MACHINES).write_text(text)
    with pytest.raises(ValueError, match=r"machines\.json is damaged: it is no list of machines"):
        remember_machine(tmp_path, CPU)


def test_drop_metrics_after_an_update(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for update in (2, 4, 6):
        append_metrics(path, {"update": update})
    assert drop_metrics_after(path, 4, epochs=2) == 2
    append_metrics(path, {"update": 5})
    assert read_metrics(path) == [{"update": 2}, {"update": 4}, {"update": 5}]


def test_drop_metrics_after_an_update_whose_epoch_was_not_done(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for update in (2, 4):
        append_metrics(path, {"update": update})
    assert drop_metrics_after(path, 4, epochs=1) == 1
    assert read_metrics(path) == [{"update": 2}]


def test_read_metrics_names_a_damaged_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for line in ('{"upd', "[" * 100_000, "[2]", "null", "{}", '{"update": "3"}', "3", '"text"'):
        path.write_text(f'{{"update": 2}}\n{line}\n{{"update": 4}}\n')
        with pytest.raises(ValueError, match=r"metrics\.jsonl:2 is damaged"):
            read_metrics(path)
