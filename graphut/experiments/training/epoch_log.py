"""Logging of the metrics of each epoch to TensorBoard or Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

EPOCH_LOGS = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb"}
"""The module that each log needs."""


class EpochLog:
    """Logger of the metrics of each epoch, for the argument `on_epoch` of a `Trainer`.

    `name` is a key of `EPOCH_LOGS`, such as "tensorboard", and `folder` the folder of the run. The
    step of a log entry is the number of updates so far. TensorBoard's files are in the folder
    `tensorboard` of the run. Raise `ImportError` if the package of the log is not installed.
    """

    def __init__(self, name: str, folder: str | Path) -> None:
        check_log(name)
        self._module = import_module(EPOCH_LOGS[name])
        self.name, self.folder = name, Path(folder)
        self._log: Any = None

    def __call__(self, metrics: Mapping[str, Any]) -> None:
        """Log the metrics of an epoch; the first call opens the log."""
        update, scalars = metrics["update"], _scalars("training", metrics)
        if self.name == "wandb":
            if self._log is None:
                self._log = self._module.init(name=self.folder.name, dir=self.folder)
            self._log.log(scalars, step=update)
            return
        if self._log is None:
            # A resumed run repeats the updates after its checkpoint: hide what was logged before.
            folder = self.folder / "tensorboard"
            self._log = self._module.SummaryWriter(folder, purge_step=update)
        for name, value in scalars.items():
            self._log.add_scalar(name, value, update)
        self._log.flush()


def check_log(name: str) -> None:
    """Raise `ImportError` if the package that a log needs, such as wandb, is not installed."""
    if find_spec(name) is None:
        raise ImportError(f"logging to {name} needs it: pip install {name}")


def _scalars(group: str, metrics: Mapping[str, Any]) -> dict[str, float]:
    """Flatten nested metrics to a dictionary of numbers with keys such as "validation/accuracy"."""
    found: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            found |= _scalars(name, value)
        elif isinstance(value, (int, float)):
            found[f"{group}/{name}"] = value
    return found
