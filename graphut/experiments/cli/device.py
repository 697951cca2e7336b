"""The device on which a command runs."""

from __future__ import annotations

from graphut._torch import torch


def pick_device(name: str | None) -> torch.device:
    """Return the device with this name; without a name, the GPU if available, else the CPU."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return torch.empty(0, device=name).device
    except (AssertionError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"there is no device {name!r} here: {reason}") from None
