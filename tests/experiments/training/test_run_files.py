import os
from pathlib import Path
from typing import Any

import pytest
import torch

from graphut._files import write_checked_json
from graphut.experiments.machine import describe_machine
from graphut.experiments.training import run_files
from tests.helpers import refuses

CPU = torch.device("cpu")


def test_append_metrics_says_that_no_space_is_left() -> None:
    with pytest.raises(OSError, match="cannot write /dev/full: No space left on device: free some"):
        run_files.append_metrics("/dev/full", {"update": 1})


def test_remember_machine_adds_each_machine_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_files.read_machines(tmp_path) == []
    here = describe_machine(CPU)
    run_files.remember_machine(tmp_path, CPU)
    run_files.remember_machine(tmp_path, CPU)
    assert run_files.read_machines(tmp_path) == [here]

    there = here | {"cpu": "Abacus 9"}
    monkeypatch.setattr(run_files, "describe_machine", lambda device: there)
    run_files.remember_machine(tmp_path, CPU)
    assert run_files.read_machines(tmp_path) == [here, there]
    path = tmp_path / run_files.MACHINES
    path.write_text(path.read_text().replace("Abacus 9", "Abacus 8"))
    with pytest.raises(ValueError, match=r"machines\.json does not match its checksum"):
        run_files.remember_machine(tmp_path, CPU)


@pytest.mark.parametrize("content", [{}, {"machines": ["a"]}])
def test_read_machines_refuses_other_fields(tmp_path: Path, content: dict[str, Any]) -> None:
    write_checked_json(tmp_path / run_files.MACHINES, content)
    refuses(r"machines\.json is damaged: it must contain a list", run_files.read_machines, tmp_path)


def test_read_metrics_returns_what_append_metrics_wrote(tmp_path: Path) -> None:
    path = tmp_path / run_files.METRICS
    assert run_files.read_metrics(path) == []
    lines: Any = [{"update": 3, "loss": 0.1}, {"update": 6, "validation": {"x": 1}}]
    for line in lines:
        run_files.append_metrics(path, line)
    with path.open("a") as file:
        file.write('{"update": 9, "lo')  # the process was killed
    assert run_files.read_metrics(path) == lines


def test_read_metrics_names_a_damaged_line(tmp_path: Path) -> None:
    path = tmp_path / run_files.METRICS
    run_files.append_metrics(path, {"update": 3})
    other_digit = path.read_text().replace("3", "4", 1).rstrip()
    for line in ('{"upd', "[" * 100_000, "[2]", "null", "{}", '{"update": "3"}', "3", other_digit):
        path.write_text(f'{{"update": 2}}\n{line}\n{{"update": 4}}\n')
        refuses(r"metrics\.jsonl:2 is damaged", run_files.read_metrics, path)


@pytest.mark.parametrize("epochs", [1, 2])
def test_drop_metrics_after_keeps_lines_up_to_an_update_and_an_epoch(
    tmp_path: Path, epochs: int
) -> None:
    path = tmp_path / run_files.METRICS
    lines = [{"update": update, "seconds": 0.1 + update} for update in (2, 4, 6)]
    for line in lines:
        run_files.append_metrics(path, line)
    before = path.read_text().splitlines()
    assert run_files.drop_metrics_after(path, 4, epochs) == epochs
    assert path.read_text().splitlines() == before[:epochs]
    run_files.append_metrics(path, lines[2])
    assert run_files.read_metrics(path) == [*lines[:epochs], lines[2]]


def test_own_files_are_the_files_of_a_run(tmp_path: Path) -> None:
    own = {"run.json", "target_vocabulary.json", "metrics.jsonl", "checkpoint.safetensors"}
    for name in own | {"lock", "note.json", ".run.json.12.tmp", "evaluation-test.json"}:
        (tmp_path / name).touch()
    assert run_files.own_files(tmp_path) == own


def test_remove_temporary_files_of_the_run(tmp_path: Path) -> None:
    removed = {".checkpoint.safetensors.12.0123456789abcdef.tmp", ".model.safetensors.7.tmp"}
    kept = {".evaluation-test.json.12.0123.tmp", ".note.12.0123.tmp", "run.json", ".hidden"}
    for name in removed | kept:
        (tmp_path / name).touch()
    run_files.remove_temporary_files(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_folder_lock_is_held_until_the_outer_context_ends(tmp_path: Path) -> None:
    lock = run_files.FolderLock(tmp_path / "new" / "folder")
    with lock:
        with lock:
            lock.check()
        message = r"another process is training in .*: wait for it, or use another folder"
        with pytest.raises(BlockingIOError, match=message), run_files.FolderLock(lock.folder):
            pass
        assert (lock.folder / run_files.LOCK).exists()
    with run_files.FolderLock(lock.folder):
        pass


def test_folder_lock_check_notices_that_lock_or_folder_was_removed(tmp_path: Path) -> None:
    with run_files.FolderLock(tmp_path / "run") as lock:
        lock.check()
        (tmp_path / "run" / run_files.LOCK).unlink()
        (tmp_path / "run" / run_files.LOCK).touch()  # of another process
        with pytest.raises(BlockingIOError, match=r"lock was removed during training"):
            lock.check()
        (tmp_path / "run").rename(tmp_path / "away")
        with pytest.raises(BlockingIOError, match=r"the folder .*run was removed during"):
            lock.check()


def test_folder_lock_refuses_a_file_that_is_not_plain(tmp_path: Path) -> None:
    target, lock = tmp_path / "target", tmp_path / run_files.LOCK
    target.write_text("mine")
    for create in (lambda: lock.symlink_to(target), lambda: os.mkfifo(lock)):
        create()
        with (
            pytest.raises(ValueError, match="lock is not a plain file"),
            run_files.FolderLock(tmp_path),
        ):
            pass
        lock.unlink()
    assert target.read_text() == "mine"
