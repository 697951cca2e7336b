"""Checkpoints of the end of an epoch, from which training resumes exactly.

A checkpoint is one safetensors file, with all state that is not a tensor as JSON in the header.
Because it is one file, a crash leaves either the old checkpoint or the new one.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from graphut._files import reraise_for_file
from graphut.models.checked_config import quote
from graphut.models.model_files import read_checked_tensors, write_tensors

_FORMAT = "graphut checkpoint 4"


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
    write_tensors(Path(path), copies, format=_FORMAT, state=json.dumps(header))


def load_checkpoint(path: str | Path, trained: TrainingState) -> int:
    """Restore `trained` and the random state of torch from a file; return the number of epochs.

    Raise `ValueError` if the file is damaged, is no checkpoint, or belongs to another model.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}: begin the run again")
    tensors, metadata = read_checked_tensors(path)
    if metadata.get("format") != _FORMAT:
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
