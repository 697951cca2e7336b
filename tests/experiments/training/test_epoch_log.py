from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from graphut.experiments.cli import main
from graphut.experiments.training.run_files import CHECKPOINT, METRICS, is_run, read_metrics
from tests.experiments.cli.tiny import TINY


def saved_update(folder: Path) -> int:
    with safe_open(folder / CHECKPOINT, "np") as file:
        return json.loads(file.metadata()["state"])["progress"]["update"]


class OfflineRun:
    """The parts of the module and of a run of Weights & Biases that `EpochLog` uses."""

    __spec__ = ModuleSpec("wandb", None)

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.logged: list[tuple[int, dict[str, float]]] = []

    def init(self, **options: Any) -> OfflineRun:
        assert not self.options  # once for all epochs
        self.options = options
        return self

    def log(self, scalars: dict[str, float], step: int) -> None:
        assert saved_update(self.options["dir"]) == step  # an error loses no epoch
        self.logged.append((step, scalars))


def test_epoch_log_in_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = OfflineRun()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.chdir(tmp_path)
    assert main(["train", "copy", "--out", ".", "--log-to", "wandb", *TINY]) == 0
    assert wandb.options == {"name": tmp_path.name, "dir": Path()}
    lines = read_metrics(METRICS)
    assert [step for step, _ in wandb.logged] == [line["update"] for line in lines]
    for (_, scalars), line in zip(wandb.logged, lines, strict=True):
        assert scalars["training/loss"] == line["loss"]
        assert scalars["training/encoder_steps"] == line["encoder_steps"]
        validation = {name: x for name, x in scalars.items() if name.startswith("validation/")}
        assert validation == {f"validation/{name}": x for name, x in line["validation"].items()}


@pytest.mark.filterwarnings("ignore::DeprecationWarning:tensorboard")
def test_epoch_log_in_tensorboard_of_a_resumed_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    command = ["train", "copy", "--out", str(tmp_path), "--log-to", "tensorboard"]
    assert main([*command, *TINY]) == 0
    assert main([*command, "--resume", "--epochs", "3"]) == 0
    log, lines = EventAccumulator(str(tmp_path / "tensorboard")), read_metrics(tmp_path / METRICS)
    log.Reload()
    for group, name in (("training", "loss"), ("validation", "sequence_accuracy")):
        events = log.Scalars(f"{group}/{name}")
        values = [line[name] if group == "training" else line[group][name] for line in lines]
        assert [event.step for event in events] == [line["update"] for line in lines]
        assert len(events) == 3 and [event.value for event in events] == pytest.approx(values)


def test_epoch_log_that_cannot_be_opened_ends_the_run_before_its_first_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Callable[..., str]
) -> None:
    class UsageError(Exception):
        pass

    def init(**options: Any) -> None:
        raise UsageError("api_key not configured\nlog in first")

    wandb = OfflineRun()
    monkeypatch.setattr(wandb, "init", init)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    said = refusal("train", "copy", "--out", tmp_path, "--log-to", "wandb", *TINY)
    assert said == "graphut: cannot log to wandb: api_key not configured\n"
    assert not (tmp_path / METRICS).exists() and not is_run(tmp_path)
