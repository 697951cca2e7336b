"""On which machines a run was trained: a small file in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from graphut._files import read_json, write_json
from graphut.experiments.machine import describe_machine

MACHINES = "machines.json"


def remember_machine(folder: str | Path, device: torch.device) -> None:
    """Add this machine, unless the run was on it, with the same packages, before."""
    before = read_machines(folder)
    here = describe_machine(device)
    if here not in before:
        write_json(Path(folder, MACHINES), [*before, here])


def read_machines(folder: str | Path) -> list[dict[str, Any]]:
    """The machines that a run was on, in order; none if it has not begun."""
    path = Path(folder, MACHINES)
    machines: list[dict[str, Any]] = read_json(path) if path.exists() else []
    return machines
