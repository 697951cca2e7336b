"""A lock that keeps other processes from training in the folder of a run."""

from __future__ import annotations

import os
from pathlib import Path

from filelock import FileLock, Timeout

from graphut._files import explain_write_errors
from graphut.experiments.training.processes import is_first

LOCK = "lock"


class FolderLock:
    """A reentrant lock on the folder of a run, which is created if it does not exist.

    In a process group only the first process locks the folder.

    The operating system releases the lock when the process ends. Entering raises `BlockingIOError`
    if another process holds the lock, `ValueError` if the lock file is not a plain file, and
    `OSError` if the folder cannot be written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._path = self.folder / LOCK
        self._lock = FileLock(self._path)

    def __enter__(self) -> FolderLock:
        """Lock the folder."""
        if not is_first():
            return self
        with explain_write_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        # Some versions of filelock follow a symbolic link and empty the file that it points to.
        if self._path.is_symlink() or (self._path.exists() and not self._path.is_file()):
            raise ValueError(f"{self._path} is not a plain file and cannot be locked: remove it")
        try:
            with explain_write_errors(self._path):
                self._lock.acquire(timeout=0)
        except Timeout:
            raise BlockingIOError(
                f"another process is training in {self.folder}: wait for it, or use another folder"
            ) from None
        if self._lock.lock_counter == 1:
            self._locked = self._path.stat()
        return self

    def __exit__(self, *error: object) -> None:
        """Unlock the folder."""
        self._lock.release()

    def check(self) -> None:
        """Raise `BlockingIOError` if the lock file was removed: others could lock the folder."""
        try:
            held = os.path.samestat(self._path.stat(), self._locked)
        except FileNotFoundError:
            held = False
        if not held:
            gone = self._path if self.folder.is_dir() else f"the folder {self.folder}"
            raise BlockingIOError(
                f"{gone} was removed during training: nothing more is written, because another "
                "process may train there now; resume the run or begin another"
            )
