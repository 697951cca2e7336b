"""The files of a run: its checkpoint, its metrics, and their log for TensorBoard.

The checkpoint is of the end of an epoch, from which training resumes exactly. It is one safetensors
file, with all state that is not a tensor as JSON in the header. Because it is one file, a crash
leaves either the old checkpoint or the new one.

Importing this module does not import torch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from graphut._files import explain_write_errors, reraise_for_file, write_atomically
from graphut._torch import torch
from graphut.models.checked_config import quote
from graphut.models.model_files import read_tensors, write_tensors

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

RUN, CHECKPOINT, METRICS = "run.json", "checkpoint.safetensors", "metrics.jsonl"
_CHECKPOINT = "graphut checkpoint 4"


def is_run(folder: str | Path) -> bool:
    """Return whether a folder contains a run."""
    return Path(folder, RUN).is_file()


def check_is_new(folder: str | Path) -> None:
    """Raise `FileExistsError` if a folder contains a run that has completed an epoch."""
    if Path(folder, METRICS).exists():
        raise FileExistsError(f"there is a run in {folder}: --resume it, or use another --out")


def remove_temporary_files(folder: Path) -> None:
    """Remove what killed processes were writing."""
    for path in folder.glob(".*.tmp"):
        if not path.name.startswith(".evaluation-"):  # `graphut eval` may be writing now
            path.unlink(missing_ok=True)


def append_metrics(path: str | Path, metrics: Mapping[str, Any]) -> None:
    """Append the metrics of an epoch to a file, as one line of JSON."""
    with explain_write_errors(path), Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(metrics) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """Return the metrics of each epoch from a file; an empty list if there is no such file.

    An incomplete last line is skipped: the process was killed while it wrote the line. Raise
    `ValueError` with the line number if another line is damaged.
    """
    if not Path(path).exists():
        return []
    metrics: list[dict[str, Any]] = []
    for number, line in enumerate(Path(path).read_bytes().split(b"\n")[:-1], 1):
        with reraise_for_file(f"{path}:{number}"):
            metrics.append(dict(json.loads(line)))
    return metrics


def keep_metrics(folder: Path, epochs: int) -> None:
    """Remove the metrics of later epochs, which a resumed run will write again."""
    path = folder / METRICS
    lines = read_metrics(path)[:epochs]
    if path.exists():
        write_atomically(path, *(f"{json.dumps(line)}\n".encode() for line in lines))


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


class TrainingState(NamedTuple):
    """The objects whose state a checkpoint contains."""

    model: nn.Module
    optimizer: Optimizer
    average: nn.Module | None = None  # moving average of the weights

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device


def save_checkpoint(path: str | Path, trained: TrainingState, epoch: int) -> None:
    """Write `trained`, the random state of torch and the number of epochs to a file, atomically."""
    optimizer = trained.optimizer.state_dict()
    tensors = {f"model.{name}": value for name, value in trained.model.state_dict().items()}
    if trained.average is not None:
        tensors |= {f"average.{name}": x for name, x in trained.average.state_dict().items()}
    for index, state in optimizer["state"].items():
        tensors |= {f"optimizer.{index}.{name}": value for name, value in state.items()}
    tensors["random.cpu"] = torch.get_rng_state()
    if trained.device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(trained.device)
    header = {"optimizer": optimizer["param_groups"], "epoch": epoch}
    # safetensors refuses tied weights, which share their storage: copy them.
    copies = {name: value.detach().cpu().clone() for name, value in tensors.items()}
    write_tensors(Path(path), copies, format=_CHECKPOINT, state=json.dumps(header))


def load_checkpoint(path: str | Path, trained: TrainingState) -> int:
    """Restore `trained` and the random state of torch from a file; return the number of epochs.

    Raise `ValueError` if the file is damaged, is no checkpoint, or belongs to another model.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}: begin the run again")
    tensors, metadata = read_tensors(path)
    if metadata.get("format") != _CHECKPOINT:
        raise ValueError(
            f"{path} is not a checkpoint of this version: {quote(metadata.get('format'))}"
        )
    with reraise_for_file(path, "belongs to another model or optimizer"):
        header = json.loads(metadata["state"])
        trained.model.load_state_dict(_under("model.", tensors))
        if trained.average is not None:
            trained.average.load_state_dict(_under("average.", tensors))
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in _under("optimizer.", tensors).items():
            index, _, key = name.partition(".")
            state.setdefault(int(index), {})[key] = value.clone()  # it is a view of the file
        trained.optimizer.load_state_dict({"state": state, "param_groups": header["optimizer"]})
        torch.set_rng_state(tensors["random.cpu"])
        if trained.device.type == "cuda" and "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], trained.device)
        return int(header["epoch"])


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = len(prefix)
    return {name[start:]: x for name, x in tensors.items() if name.startswith(prefix)}
