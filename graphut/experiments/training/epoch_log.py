"""Logging of the metrics of each epoch to TensorBoard."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def tensorboard_log(folder: str | Path, update: int = 0) -> Callable[[Mapping[str, Any]], None]:
    """Return a function for the argument `on_epoch` of a `Trainer`, which logs to TensorBoard.

    The log is in `folder/tensorboard`, and the step of an entry is the number of updates so far. A
    resumed run begins after `update` updates: entries of later updates are hidden, since it repeats
    them.
    """
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(Path(folder, "tensorboard"), purge_step=update + 1)

    def log(metrics: Mapping[str, Any]) -> None:
        for name, value in _scalars("training", metrics).items():
            writer.add_scalar(name, value, metrics["update"])
        writer.flush()

    return log


def _scalars(group: str, metrics: Mapping[str, Any]) -> dict[str, float]:
    """Flatten nested metrics to a dictionary of numbers with keys such as "validation/accuracy"."""
    scalars: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            scalars |= _scalars(name, value)
        elif isinstance(value, (int, float)):
            scalars[f"{group}/{name}"] = value
    return scalars
