"""Where and with what a benchmark was run, and how fast that multiplies matrices."""

from __future__ import annotations

import platform
from collections.abc import Callable
from datetime import datetime, timezone

import torch

from graphut.experiments.machine import describe_machine, package_version

_SIDE = 1024
MATMUL_FLOPS = 2 * _SIDE**3  # of the product of `matmul`


def dated_machine(device: torch.device) -> dict[str, object]:
    """Names, versions, threads and the date, for a report."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "system": platform.platform(),
        **describe_machine(device),
        **{package: package_version(package) for package in ("torch_geometric", "triton")},
    }


def matmul(device: torch.device) -> Callable[[], object]:
    """A product of two square matrices of 1024, float32: what the machine can do."""
    a, b = torch.randn(2, _SIDE, _SIDE, device=device)
    return lambda: torch.mm(a, b)
