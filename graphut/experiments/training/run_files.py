"""The files of a training run that record its metrics and the machines it was trained on."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from graphut._files import (
    explain_write_errors,
    json_checksum,
    read_checked_json,
    read_file,
    read_json,
    reraise_for_file,
    with_checksum,
    write_atomically,
    write_json,
)
from graphut.experiments.machine import describe_machine
from graphut.models.pretrained import WEIGHTS

CHECKPOINT = "checkpoint.safetensors"
MACHINES = "machines.json"
METRICS = "metrics.jsonl"

_OWN = (
    r"(run|config|machines|\w+_vocabulary)\.json|options\.yaml|metrics\.jsonl|"
    r"(model|checkpoint)\.safetensors"
)
_TEMPORARY = rf"\.({_OWN}|evaluation-.+\.json)\.(?P<process>\d+)(\.[0-9a-f]+)?\.tmp"


def own_files(folder: Path) -> set[str]:
    """Return the names of the files in a folder that belong to its run, without evaluations."""
    return {path.name for path in folder.iterdir() if re.fullmatch(_OWN, path.name)}


def remove_temporary_files(folder: Path) -> None:
    """Remove the temporary files that killed processes have left in the folder of a run."""
    for path in folder.glob(".*"):
        found = re.fullmatch(_TEMPORARY, path.name)
        if found and not _is_alive(int(found["process"])):
            path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return process not in (0, os.getpid())  # 0 is the group of this process


def append_metrics(path: str | Path, metrics: Mapping[str, Any]) -> None:
    """Append the metrics of an epoch to a file, as one line of JSON with a checksum."""
    with explain_write_errors(path), Path(path).open("a", encoding="utf-8") as file:
        file.write(_metrics_line(metrics))


def _metrics_line(metrics: Mapping[str, Any]) -> str:
    return json.dumps(with_checksum(metrics)) + "\n"


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """Return the metrics of each epoch from a file; an empty list if there is no file.

    A last line without its end is left out: the process was killed while it wrote the line. Raise
    `ValueError` with the number of the line if another line is damaged. Lines of older versions
    have no checksum.
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

    Keep at most `epochs` lines, none of them of an update later than `update`.
    """
    kept = [line for line in read_metrics(path) if line["update"] <= update][:epochs]
    write_atomically(path, "".join(map(_metrics_line, kept)).encode())
    return len(kept)


def remember_machine(folder: str | Path, device: torch.device) -> None:
    """Add this machine to the machines of a run, unless it is there with the same packages."""
    before = read_machines(folder)
    machine = describe_machine(device)
    if machine not in before:
        write_json(Path(folder, MACHINES), with_checksum({"machines": [*before, machine]}))


def read_machines(folder: str | Path) -> list[dict[str, Any]]:
    """Return the machines that a run was trained on, in order; an empty list before training."""
    path = Path(folder, MACHINES)
    if not path.exists():
        return []
    machines: Any = read_json(path)
    if not isinstance(machines, list):  # a list has no checksum: an older version wrote it
        machines = read_checked_json(path)[0].get("machines")
    if not isinstance(machines, list) or not all(isinstance(machine, dict) for machine in machines):
        raise ValueError(f"{path} is damaged: it must hold a list of machines")
    return machines


def model_digest(folder: str | Path) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of a model's weights file."""
    return sha256(Path(folder, WEIGHTS).read_bytes()).hexdigest()[:16]
