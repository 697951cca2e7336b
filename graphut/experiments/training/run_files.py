"""The files of a run: its lock, its metrics and the machines that it was trained on.

Importing this module does not import torch.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from graphut._files import (
    explain_write_errors,
    json_checksum,
    read_checked_json,
    read_file,
    reraise_for_file,
    with_checksum,
    write_atomically,
    write_checked_json,
)
from graphut._torch import torch
from graphut.experiments.machine import describe_machine
from graphut.models.model_files import WEIGHTS

RUN, CHECKPOINT, LOCK = "run.json", "checkpoint.safetensors", "lock"
MACHINES, METRICS = "machines.json", "metrics.jsonl"


def is_run(folder: str | Path) -> bool:
    """Return whether a folder contains a run."""
    return Path(folder, RUN).is_file()


def check_is_new(folder: str | Path) -> None:
    """Raise `FileExistsError` if a folder contains a run, or a checkpoint."""
    if is_run(folder) or Path(folder, CHECKPOINT).exists():
        raise FileExistsError(f"there is a run in {folder}: --resume it, or use another --out")


def check_is_run(folder: str | Path) -> None:
    """Raise `FileNotFoundError` if a folder contains no run."""
    if not is_run(folder):
        raise FileNotFoundError(f"there is no run in {folder}: it has no {RUN}")


class FolderLock:
    """Context manager that locks the folder of a run; its `with` blocks may be nested.

    A missing folder is created. In a process group only the first process locks the folder. The
    operating system releases the lock when the process ends. Entering raises `BlockingIOError` if
    another process holds the lock, `ValueError` if the lock file is not a plain file, and `OSError`
    if the folder cannot be written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._path = self.folder / LOCK
        self._lock = FileLock(self._path)

    def __enter__(self) -> FolderLock:
        """Lock the folder."""
        from graphut.experiments.training.processes import is_first

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


_OWN = r"(run|config|machines|\w+_vocabulary)\.json|metrics\.jsonl|(model|checkpoint)\.safetensors"


def own_files(folder: Path) -> set[str]:
    """Return the names of the files of the run in a folder, except results of evaluations."""
    return {path.name for path in folder.iterdir() if re.fullmatch(_OWN, path.name)}


def remove_temporary_files(folder: Path) -> None:
    """Remove temporary files of killed processes; the caller must hold the lock of the folder."""
    for path in folder.glob(".*.tmp"):
        if re.fullmatch(rf"\.({_OWN})\.[0-9a-f.]+\.tmp", path.name):
            path.unlink(missing_ok=True)


def append_metrics(path: str | Path, metrics: Mapping[str, Any]) -> None:
    """Append the metrics of an epoch to a file, as one line of JSON with a checksum."""
    with explain_write_errors(path), Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(with_checksum(metrics)) + "\n")


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """Return the metrics of each epoch from a file; an empty list if there is no such file.

    An incomplete last line is skipped: the process was killed while it wrote the line. Raise
    `ValueError` with the line number if another line is damaged. A line may lack a checksum.
    """
    if not Path(path).exists():
        return []
    metrics: list[dict[str, Any]] = []
    for number, line in enumerate(read_file(path).split(b"\n")[:-1], 1):
        with reraise_for_file(f"{path}:{number}"):
            fields = json.loads(line)
            if fields.pop("sha256", None) not in (None, json_checksum(fields)):
                raise ValueError("it does not match its checksum")
            if not isinstance(fields["update"], int):
                raise ValueError(f"its update is {fields['update']!r}")
            metrics.append(fields)
    return metrics


def drop_metrics_after(path: str | Path, update: int, epochs: int) -> int:
    """Remove the lines that a resumed run will write again; return the number of kept lines.

    Keep at most `epochs` lines, and only lines of updates up to `update`.
    """
    lines = [line for line in read_metrics(path) if line["update"] <= update][:epochs]
    write_atomically(path, *(f"{json.dumps(with_checksum(line))}\n".encode() for line in lines))
    return len(lines)


def remember_machine(folder: str | Path, device: torch.device) -> None:
    """Add the description of this machine to a run, unless the run already has it."""
    machines = read_machines(folder)
    machine = describe_machine(device)
    if machine not in machines:
        write_checked_json(Path(folder, MACHINES), {"machines": [*machines, machine]})


def read_machines(folder: str | Path) -> list[dict[str, Any]]:
    """Return the machines that a run was trained on, in order; an empty list before training."""
    path = Path(folder, MACHINES)
    if not path.exists():
        return []
    machines = read_checked_json(path).get("machines")
    if not isinstance(machines, list) or not all(isinstance(machine, dict) for machine in machines):
        raise ValueError(f"{path} is damaged: it must contain a list of machines")
    return machines


def model_digest(folder: str | Path) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a model's weights file."""
    return sha256(Path(folder, WEIGHTS).read_bytes()).hexdigest()[:16]
