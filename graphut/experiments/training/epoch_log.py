"""Logging of the metrics of each epoch to TensorBoard or Weights & Biases."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

EPOCH_LOGS = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb"}
"""The module that each log needs."""


class EpochLog:
    """Logger of the metrics of each epoch, for the argument `on_epoch` of a `Trainer`.

    `name` is a key of `EPOCH_LOGS`, and `folder` the folder of the run. The step of a log entry is
    the number of updates so far; a resumed run begins after `update` updates. Raise `ImportError`
    if the package of the log is not installed, and `OSError` if the log cannot be opened.
    """

    def __init__(self, name: str, folder: str | Path, update: int = 0) -> None:
        check_log(name)
        self.name, folder = name, Path(folder)
        try:
            module: Any = import_module(EPOCH_LOGS[name])
            if name == "wandb":
                self._log = module.init(name=folder.absolute().name, dir=folder)
            else:
                # A resumed run repeats the updates after its checkpoint: hide those logged before.
                self._log = module.SummaryWriter(folder / "tensorboard", purge_step=update + 1)
        except Exception as error:  # of many kinds: wandb has its own
            reason = str(error).partition("\n")[0] or repr(error)
            raise OSError(f"cannot log to {name}: {reason}") from error

    def __call__(self, metrics: Mapping[str, Any]) -> None:
        """Log the metrics of an epoch."""
        update, scalars = metrics["update"], _scalars("training", metrics)
        if self.name == "wandb":
            self._log.log(scalars, step=update)
            return
        for name, value in scalars.items():
            self._log.add_scalar(name, value, update)
        self._log.flush()


def check_log(name: str) -> None:
    """Raise `ImportError` if the package that a log needs, such as wandb, is not installed."""
    if find_spec(name) is None:
        raise ImportError(f"logging to {name} needs it: pip install {name}")


def _scalars(group: str, metrics: Mapping[str, Any]) -> dict[str, float]:
    """Flatten nested metrics to a dictionary of numbers with keys such as "validation/accuracy"."""
    scalars: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            scalars |= _scalars(name, value)
        elif isinstance(value, (int, float)):
            scalars[f"{group}/{name}"] = value
    return scalars
