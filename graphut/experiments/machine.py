"""Descriptions of this machine and of the installed packages, for records of runs."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from graphut._torch import torch
from graphut._version import __version__

# NumPy shuffles, and tokenizers makes subwords: results depend on both.
_PACKAGES = ("torch", "dgl", "numpy", "tokenizers")


def describe_machine(device: torch.device) -> dict[str, object]:
    """Return a dictionary with the CPU, the GPU, the number of threads and package versions."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "cpu": cpu_name(),
        "gpu": gpu,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "graphut": __version__,
        "commit": _commit(),
        **{package: _version(package) for package in _PACKAGES},
    }


@cache
def cpu_name() -> str:
    """Return the model name of the processor, or its architecture if the name is unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (named or [platform.processor() or platform.machine() or "unknown"])[0]


@cache
def _commit() -> str | None:
    """Return graphut's git commit, or None without git; a final "+" marks uncommitted changes."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    words = ["git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"]
    try:
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
