"""A description of this machine: processors, and versions of packages."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import torch

from graphut._version import __version__
from graphut.attention.autotune import cpu_name

# Shuffles are NumPy's, and subwords are those of tokenizers.
_PACKAGES = ("torch", "dgl", "numpy", "tokenizers")


def describe_machine(device: torch.device) -> dict[str, object]:
    """Return the names of processors, threads, and versions, on which a measurement depends.

    Parameters
    ----------
    device : torch.device
        The device of the work: if it is a GPU, its name is part of the description.

    Examples
    --------
    >>> list(describe_machine(torch.device("cpu")))
    ['cpu', 'gpu', 'threads', 'python', 'graphut', 'torch', 'dgl', 'numpy', 'tokenizers']
    """
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "cpu": cpu_name(),
        "gpu": gpu,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "graphut": __version__,
        **{package: package_version(package) for package in _PACKAGES},
    }


def package_version(package: str) -> str | None:
    """Return the version of a package; `None` if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
