import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from graphut.experiments.training import TrainingConfig
from graphut.experiments.training.checkpoint import TrainingState, load_checkpoint, save_checkpoint
from graphut.experiments.training.optimization import make_optimizer
from graphut.models.model_files import write_tensors
from tests.helpers import refuses


def make(width: int = 3) -> TrainingState:
    model = nn.Linear(width, width)
    return TrainingState(model, make_optimizer(model, TrainingConfig()))


@pytest.mark.parametrize("change", [{"epoch": None}, {"optimizer": 3}, {"optimizer": None}])
def test_load_checkpoint_refuses_a_foreign_state(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "checkpoint"
    save_checkpoint(path, make(), 3)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    state = json.loads(metadata["state"]) | change
    metadata["state"] = json.dumps({name: v for name, v in state.items() if v is not None})
    write_tensors(path, load_file(path), format=metadata["format"], state=metadata["state"])
    refuses("checkpoint belongs to another model", load_checkpoint, path, make())


def test_load_checkpoint_refuses_another_file_or_model(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    with pytest.raises(FileNotFoundError, match=r"there is no checkpoint .*checkpoint"):
        load_checkpoint(path, make())
    write_tensors(path, {"weight": torch.zeros(2)})
    refuses("checkpoint is not a checkpoint of this version: None", load_checkpoint, path, make())
    save_checkpoint(path, make(width=4), 1)
    refuses("belongs to another model", load_checkpoint, path, make(width=3))
