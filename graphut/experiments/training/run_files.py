"""The files of a run: its lock, its metrics and the machines that it was trained on.

Importing this module does not import torch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from graphut._files import (
    explain_write_errors,
    read_checked_json,
    read_file,
    reraise_for_file,
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
    """Raise `FileExistsError` if a folder contains a run that has completed an epoch."""
    if Path(folder, METRICS).exists():
        raise FileExistsError(f"there is a run in {folder}: --resume it, or use another --out")


def check_is_run(folder: str | Path) -> None:
    """Raise `FileNotFoundError` if a folder contains no run."""
    if not is_run(folder):
        raise FileNotFoundError(f"there is no run in {folder}: it has no {RUN}")


@contextmanager
def folder_lock(folder: str | Path) -> Iterator[None]:
    """Context manager that locks the folder of a run; its blocks may be nested.

    A missing folder is created. In a process group only the first process locks the folder. The
    operating system releases the lock when the process ends. Raise `BlockingIOError` if another
    process holds the lock.
    """
    from graphut.experiments.training.processes import is_first

    if not is_first():
        yield
        return
    path = Path(folder) / LOCK
    with explain_write_errors(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.absolute(), is_singleton=True)
    try:
        with explain_write_errors(path):
            lock.acquire(timeout=0)
    except Timeout:
        raise BlockingIOError(
            f"another process is training in {folder}: wait for it, or use another folder"
        ) from None
    try:
        yield
    finally:
        lock.release()


def remove_temporary_files(folder: Path) -> None:
    """Remove what killed processes were writing; the caller must hold the lock."""
    for path in folder.glob(".*.tmp"):
        if not path.name.startswith(".evaluation-"):  # `graphut eval` needs no lock
            path.unlink(missing_ok=True)


def append_metrics(path: str | Path, metrics: Mapping[str, Any]) -> None:
    """Append the metrics of an epoch to a file, as one line of JSON."""
    with explain_write_errors(path), Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(metrics) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """Return the metrics of each epoch from a file; an empty list if there is no such file.

    An incomplete last line is skipped: the process was killed while it wrote the line. Raise
    `ValueError` with the line number if another line is damaged.
    """
    if not Path(path).exists():
        return []
    metrics: list[dict[str, Any]] = []
    for number, line in enumerate(read_file(path).split(b"\n")[:-1], 1):
        with reraise_for_file(f"{path}:{number}"):
            fields = json.loads(line)
            if not isinstance(fields["update"], int):
                raise ValueError(f"its update is {fields['update']!r}")
            metrics.append(fields)
    return metrics


def keep_metrics(folder: Path, epochs: int) -> None:
    """Remove the metrics of later epochs, which a resumed run will write again."""
    path = folder / METRICS
    lines = read_metrics(path)[:epochs]
    if path.exists():
        write_atomically(path, *(f"{json.dumps(line)}\n".encode() for line in lines))


def tensorboard_log(folder: str | Path, update: int = 0) -> Callable[[Mapping[str, Any]], None]:
    """Return a function for the argument `on_epoch` of a `Trainer`, which logs to TensorBoard.

    The log is in `folder/tensorboard`, and the step of an entry is the number of updates so far. A
    resumed run begins after `update` updates: entries of later updates are hidden, since it repeats
    them.
    """
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(Path(folder, "tensorboard"), purge_step=update + 1)

    def log(metrics: Mapping[str, Any]) -> None:
        for name, value in _scalars("training", metrics).items():
            writer.add_scalar(name, value, metrics["update"])
        writer.flush()

    return log


def _scalars(group: str, metrics: Mapping[str, Any]) -> dict[str, float]:
    """Flatten nested metrics to a dictionary of numbers with keys such as "validation/accuracy"."""
    scalars: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            scalars |= _scalars(name, value)
        elif isinstance(value, (int, float)):
            scalars[f"{group}/{name}"] = value
    return scalars


def remember_machine(folder: Path, device: torch.device) -> None:
    """Add the description of this machine to a run, unless the run already has it."""
    machines = read_machines(folder)
    machine = describe_machine(device)
    if machine not in machines:
        write_checked_json(folder / MACHINES, {"machines": [*machines, machine]})


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
