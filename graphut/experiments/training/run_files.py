"""Small files in the folder of a training run: metrics and machines."""

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
    read_file,
    read_json,
    reraise_for_file,
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
_WRITTEN = rf"{_OWN}|(evaluation|sweep)-.+\.json"


def own_files(folder: Path) -> set[str]:
    """Return the names of the files in a folder that belong to its run."""
    return {path.name for path in folder.iterdir() if re.fullmatch(_OWN, path.name)}


def remove_temporary_files(folder: Path) -> None:
    """Remove what killed processes left in a folder while they wrote files of its run."""
    for path in folder.glob(".*"):
        found = re.fullmatch(
            rf"\.+({_WRITTEN})(\.new)?(\.(?P<process>\d+)(\.[0-9a-f]+)?\.tmp)*", path.name
        )
        if found and not _is_alive(int(found["process"] or 0)):
            path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return process not in (0, os.getpid())  # 0 is no process


def append_metrics(path: str | Path, metrics: Mapping[str, Any]) -> None:
    """Append the metrics of an epoch to a file, as one line of JSON."""
    with explain_write_errors(path), Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(metrics) + "\n")


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """Return the lines of a metrics file; none, if there is no file.

    A last line that was cut off while it was written is left out. Raise `ValueError`, which names
    the line, if another one is damaged.
    """
    if not Path(path).exists():
        return []
    metrics: list[dict[str, Any]] = []
    for number, line in enumerate(read_file(path).split(b"\n")[:-1], 1):
        with reraise_for_file(f"{path}:{number}"):
            metrics.append(json.loads(line))
            if not isinstance(metrics[-1]["update"], int):
                raise ValueError(f"its update is {metrics[-1]['update']!r}")
    return metrics


def drop_metrics_after(path: str | Path, update: int, epochs: int) -> int:
    """Remove the lines that a resumed run writes again; count the others.

    They are those of later updates, and that of an epoch which was not yet done when its last
    update was saved.
    """
    kept = [line for line in read_metrics(path) if line["update"] <= update][:epochs]
    write_atomically(path, "".join(json.dumps(line) + "\n" for line in kept).encode())
    return len(kept)


def remember_machine(folder: str | Path, device: torch.device) -> None:
    """Add this machine to the machines of a run, unless it is there with the same packages."""
    before = read_machines(folder)
    machine = describe_machine(device)
    if machine not in before:
        write_json(Path(folder, MACHINES), [*before, machine])


def read_machines(folder: str | Path) -> list[dict[str, Any]]:
    """Return the machines that a run was trained on, in order; none, if it has not begun."""
    path = Path(folder, MACHINES)
    machines: list[dict[str, Any]] = read_json(path) if path.exists() else []
    if not isinstance(machines, list) or not all(isinstance(machine, dict) for machine in machines):
        raise ValueError(f"{path} is damaged: it is no list of machines")
    return machines


def model_digest(folder: str | Path) -> str:
    """Return 16 digits of the SHA-256 of a model's weights, which change with the model."""
    return sha256(Path(folder, WEIGHTS).read_bytes()).hexdigest()[:16]
