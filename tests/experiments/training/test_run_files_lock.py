from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphut.experiments.training.run_files import LOCK, FolderLock


def test_folder_lock_is_held_until_the_outer_context_ends(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path / "new" / "folder")
    with lock:
        with lock:
            lock.check()
        message = r"another process is training in .*: wait for it, or use another folder"
        with pytest.raises(BlockingIOError, match=message), FolderLock(lock.folder):
            pass
        assert (lock.folder / LOCK).exists()
    with FolderLock(lock.folder):
        pass


@pytest.mark.parametrize("again", [False, True])
def test_folder_lock_check_notices_that_the_lock_was_removed(tmp_path: Path, again: bool) -> None:
    with FolderLock(tmp_path) as lock:
        lock.check()
        (tmp_path / LOCK).unlink()
        if again:
            (tmp_path / LOCK).touch()
        with pytest.raises(BlockingIOError, match=r"lock was removed during training"):
            lock.check()


def test_folder_lock_check_notices_that_the_folder_was_removed(tmp_path: Path) -> None:
    with FolderLock(tmp_path / "run") as lock:
        (tmp_path / "run").rename(tmp_path / "away")
        with pytest.raises(BlockingIOError, match=r"the folder .*run was removed during"):
            lock.check()


def test_folder_lock_refuses_a_file_that_is_not_plain(tmp_path: Path) -> None:
    target, lock = tmp_path / "target", tmp_path / LOCK
    target.write_text("mine")
    for create in (lambda: lock.symlink_to(target), lambda: os.mkfifo(lock)):
        create()
        with pytest.raises(ValueError, match="lock is not a plain file"), FolderLock(tmp_path):
            pass
        lock.unlink()
    assert target.read_text() == "mine"
