"""The device on which a command runs; this module does not import torch."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from runpy import run_path

from graphut._torch import torch


def check_device(name: str | None) -> None:
    """Raise `ValueError` for an unknown device, or for a GPU if torch is built without GPUs."""
    if name is not None and not re.fullmatch(r"(cpu|cuda)(:\d+)?", name):
        raise ValueError(f'--device must be "cpu", "cuda" or, of several, "cuda:1"; got {name!r}')
    if name is not None and name.startswith("cuda") and torch_is_for_cpus():
        raise ValueError(f"there is no device {name!r} here: Torch not compiled with CUDA enabled")


def torch_is_for_cpus() -> bool:
    """Return whether torch's `version.py`, which does not import torch, names no GPU platform."""
    torch = find_spec("torch")
    if torch is None or torch.origin is None:
        return False
    version = Path(torch.origin).with_name("version.py")
    build = run_path(str(version)) if version.is_file() else {}
    return {build.get("cuda", ""), build.get("hip", "")} == {None}


def pick_device(name: str | None) -> torch.device:
    """Return the device with this name; without a name, the GPU if available, else the CPU."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (AssertionError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"there is no device {name!r} here: {reason}") from None
