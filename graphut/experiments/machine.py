"""The machine on which something is trained or timed, and the versions of what runs on it."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from graphut._version import __version__
from graphut.attention.autotune import cpu_name
from graphut.experiments.wording import counted

# NumPy shuffles, and tokenizers makes subwords: results depend on both.
_PACKAGES = ("torch", "dgl", "numpy", "tokenizers")
_BENCH_PACKAGES = ("torch_geometric", "triton")


def describe_machine(device: torch.device) -> dict[str, object]:
    """Return processors, threads and versions: what a measurement on a device depends on.

    Examples
    --------
    >>> list(describe_machine(torch.device("cpu")))
    ['cpu', 'gpu', 'threads', 'python', 'graphut', 'commit', 'torch', 'dgl', 'numpy', 'tokenizers']
    """
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


def benchmark_machine(device: torch.device) -> dict[str, object]:
    """Return the description of this machine with vector instructions and more packages."""
    return {
        "vectors": torch.backends.cpu.get_cpu_capability(),
        **describe_machine(device),
        **{package: _version(package) for package in _BENCH_PACKAGES},
    }


def machine_name(machines: Sequence[Mapping[str, Any]]) -> str:
    """Return the processors of descriptions by `describe_machine`, with the threads of a CPU.

    A description by `benchmark_machine` has its vector instructions too.

    Examples
    --------
    >>> machine_name([{"cpu": "AMD EPYC", "gpu": None, "threads": 2}])
    'AMD EPYC, 2 threads'
    >>> machine_name([{"cpu": "AMD EPYC", "gpu": "NVIDIA H200", "threads": 2}])
    'NVIDIA H200'
    >>> machine_name([{"cpu": "AMD EPYC", "vectors": "AVX2", "gpu": None, "threads": 2}])
    'AMD EPYC, AVX2, 2 threads'
    """
    return "; ".join(dict.fromkeys(m["gpu"] or _cpu(m) for m in machines))


def _cpu(machine: Mapping[str, Any]) -> str:
    vectors = [machine["vectors"]] if "vectors" in machine else []
    return ", ".join([machine["cpu"], *vectors, counted(machine["threads"], "thread")])


@cache
def _commit() -> str | None:
    """Return the commit of graphut, with "+" if files differ; `None` outside of a git checkout."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    words = ["git", "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty=+"]
    try:
        found = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
