"""Logs of the metrics of each epoch in TensorBoard or Weights & Biases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

_Write = Callable[[dict[str, float], int], None]


class EpochLog:
    """Log of the metrics of each epoch, for the argument `on_epoch` of a `Trainer`.

    The steps of the log are the updates of training. TensorBoard's files are in the folder
    `tensorboard` of the run.

    Parameters
    ----------
    name : str
        A key of `EPOCH_LOGS`, such as "tensorboard".
    folder : str or Path
        The folder of the run.

    Raises
    ------
    ImportError
        If the package of the log is not installed.
    """

    def __init__(self, name: str, folder: str | Path) -> None:
        module, self._open = EPOCH_LOGS[name]
        try:
            self._module = import_module(module)
        except ImportError as error:
            raise ImportError(f"logging to {name} needs it: pip install {name}") from error
        self.folder = Path(folder)
        self._write: _Write | None = None

    def __call__(self, metrics: Mapping[str, Any]) -> None:
        """Log the metrics of an epoch; the first call opens the log."""
        update = metrics["update"]
        if self._write is None:
            self._write = self._open(self._module, self.folder, update)
        self._write(_scalars("training", metrics), update)


def _scalars(group: str, metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among the metrics, such as "validation/accuracy"."""
    found: dict[str, float] = {}
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            found |= _scalars(name, value)
        elif isinstance(value, (int, float)):
            found[f"{group}/{name}"] = value
    return found


def _open_tensorboard(module: Any, folder: Path, update: int) -> _Write:
    # A resumed run repeats the updates after its checkpoint: hide what was logged before.
    writer = module.SummaryWriter(folder / "tensorboard", purge_step=update)

    def write(scalars: dict[str, float], update: int) -> None:
        for name, value in scalars.items():
            writer.add_scalar(name, value, update)
        writer.flush()

    return write


def _open_wandb(module: Any, folder: Path, update: int) -> _Write:
    run = module.init(name=folder.name, dir=folder)
    return lambda scalars, update: run.log(scalars, step=update)


EPOCH_LOGS: dict[str, tuple[str, Callable[[Any, Path, int], _Write]]] = {
    "tensorboard": ("torch.utils.tensorboard", _open_tensorboard),
    "wandb": ("wandb", _open_wandb),
}
"""For each log, the module that it needs, and the function that opens it."""
