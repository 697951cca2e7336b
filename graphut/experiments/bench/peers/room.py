"""Whether a contender's tensors fit into memory."""

from __future__ import annotations

import torch

from graphut.experiments.bench.contender import UnavailableError
from graphut.experiments.bench.memory import free_bytes

_GIB = 1 << 30


def check_room(needed: int, device: torch.device) -> None:
    """Raise `UnavailableError` where so many bytes are not to be had."""
    free = free_bytes(device)
    if free is not None and needed > free:
        raise UnavailableError(
            f"needs about {needed / _GIB:.0f} GiB, {free / _GIB:.0f} GiB are free"
        )


def check_plain(biased: bool) -> None:
    """Raise `UnavailableError` where there is an edge bias."""
    if biased:
        raise UnavailableError("takes no edge bias")
