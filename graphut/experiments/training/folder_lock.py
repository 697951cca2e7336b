"""The lock that keeps a second trainer out of the folder of a run."""

from __future__ import annotations

import os
from pathlib import Path

from filelock import FileLock, Timeout

from graphut._files import explain_write_errors

LOCK = "lock"


class FolderLock:
    """The right to write into the folder of a run, which one process has at a time.

    A context, which may be entered again within; the system ends it with the process. The folder
    is made if it is not there. Entering raises `BlockingIOError` if another trainer has locked the
    folder, `ValueError` if the file of the lock is a link, or no file, and `OSError` if the folder
    cannot be written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._path = self.folder / LOCK
        self._lock = FileLock(self._path)

    def __enter__(self) -> FolderLock:
        """Lock the folder."""
        with explain_write_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        # Some versions of filelock would follow a link, and empty the file that it leads to.
        if self._path.is_symlink() or (self._path.exists() and not self._path.is_file()):
            raise ValueError(f"{self._path} is a link, or no file, and cannot be locked: remove it")
        try:
            with explain_write_errors(self._path):
                self._lock.acquire(timeout=0)
        except Timeout:
            raise BlockingIOError(
                f"another process is training in {self.folder}: wait for it, or give another folder"
            ) from None
        if self._lock.lock_counter == 1:
            self._locked = self._path.stat()
        return self

    def __exit__(self, *error: object) -> None:
        """Unlock the folder."""
        self._lock.release()

    def check(self) -> None:
        """Raise `BlockingIOError` if the lock was removed, so that others may have another."""
        try:
            held = os.path.samestat(self._path.stat(), self._locked)
        except FileNotFoundError:
            held = False
        if not held:
            gone = self._path if self.folder.is_dir() else f"the folder {self.folder}"
            raise BlockingIOError(
                f"{gone} was removed while this process was training there: nothing more is "
                "written, since another may train there now; resume what is left, or begin anew"
            )
