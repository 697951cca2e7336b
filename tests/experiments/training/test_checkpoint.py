from __future__ import annotations

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
from graphut.experiments.training.optimization import make_optimizer, make_schedule
from graphut.models.tensor_file import write_tensors


class Tied(nn.Module):
    """Two names for one weight, a buffer, and dropout."""

    count: torch.Tensor

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.second.weight = self.first.weight
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        out: torch.Tensor = self.second(torch.dropout(self.first(x), 0.5, True))
        return out


def make(width: int = 3, optimizer: str = "adamw") -> TrainingState:
    model = Tied(width)
    config = TrainingConfig(warmup=2, optimizer=optimizer)  # type: ignore[arg-type]
    made = make_optimizer(model.parameters(), config)
    return TrainingState(model, made, make_schedule(made, config, 10))


def train(trained: TrainingState, updates: int) -> None:
    for _ in range(updates):
        trained.optimizer.zero_grad()
        trained.model(torch.randn(4, 3)).square().mean().backward()
        trained.optimizer.step()
        trained.scheduler.step()


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_load_checkpoint_goes_on_as_if_it_had_never_stopped(tmp_path: Path, optimizer: str) -> None:
    straight = make(optimizer=optimizer)
    train(straight, 3)
    save_checkpoint(tmp_path / "checkpoint", straight, {"update": 3, "best": 0.1})
    train(straight, 4)
    after = torch.rand(3)

    resumed = make(optimizer=optimizer)
    torch.manual_seed(99)
    assert load_checkpoint(tmp_path / "checkpoint", resumed) == {"update": 3, "best": 0.1}
    train(resumed, 4)
    assert torch.equal(torch.rand(3), after)
    for name, value in straight.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], value), name
    assert resumed.scheduler.get_last_lr() == straight.scheduler.get_last_lr()
    assert resumed.model.first.weight is resumed.model.second.weight


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"progress": None}, "is damaged: KeyError"),
        ({"optimizer": 3}, "belongs to another model"),
        ({"optimizer": None}, "belongs to another model"),
        ({"scheduler": [1, 2]}, "belongs to another model"),
    ],
)
def test_load_checkpoint_refuses_a_foreign_state(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "checkpoint"
    save_checkpoint(path, make(), {"update": 3})
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    state = json.loads(metadata["state"]) | change
    metadata["state"] = json.dumps({name: v for name, v in state.items() if v is not None})
    write_tensors(path, load_file(path), format=metadata["format"], state=metadata["state"])
    with pytest.raises(ValueError, match=rf"checkpoint {message}"):
        load_checkpoint(path, make())


def test_load_checkpoint_refuses_another_file_or_model(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    with pytest.raises(FileNotFoundError, match=r"there is no checkpoint .*checkpoint"):
        load_checkpoint(path, make())
    write_tensors(path, {"weight": torch.zeros(2)})
    with pytest.raises(ValueError, match="checkpoint is not a checkpoint of this version: None"):
        load_checkpoint(path, make())
    save_checkpoint(path, make(width=4), {})
    with pytest.raises(ValueError, match="belongs to another model"):
        load_checkpoint(path, make(width=3))
