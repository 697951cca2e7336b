from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from graphut.experiments.cli import main
from graphut.experiments.training import TrainingConfig, run_files
from graphut.experiments.training.optimization import make_optimizer
from graphut.experiments.training.run_files import TrainingState, load_checkpoint, save_checkpoint
from graphut.models.model_files import write_tensors
from tests.experiments.cli.tiny import TINY
from tests.helpers import refuses


def make(width: int = 3) -> TrainingState:
    model = nn.Linear(width, width)
    return TrainingState(model, make_optimizer(model, TrainingConfig()))


def test_load_checkpoint_refuses_another_file_or_model(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    with pytest.raises(FileNotFoundError, match=r"there is no checkpoint .*checkpoint"):
        load_checkpoint(path, make())
    write_tensors(path, {"weight": torch.zeros(2)})
    refuses("checkpoint is not a checkpoint of this version: None", load_checkpoint, path, make())
    save_checkpoint(path, make(width=4), 1)
    refuses("belongs to another model", load_checkpoint, path, make(width=3))


def test_read_metrics_returns_what_append_metrics_wrote(tmp_path: Path) -> None:
    path = tmp_path / run_files.METRICS
    assert run_files.read_metrics(path) == []
    lines: Any = [{"update": 3, "loss": 0.1}, {"update": 6, "validation": {"x": 1}}]
    for line in lines:
        run_files.append_metrics(path, line)
    with path.open("a") as file:
        file.write('{"update": 9, "lo')  # the process was killed
    assert run_files.read_metrics(path) == lines


def test_read_metrics_names_a_damaged_line(tmp_path: Path) -> None:
    path = tmp_path / run_files.METRICS
    for line in ('{"upd', "[" * 100_000, "[2]", "null", "3"):
        path.write_text(f'{{"update": 2}}\n{line}\n{{"update": 4}}\n')
        refuses(r"metrics\.jsonl:2 is damaged", run_files.read_metrics, path)


def test_keep_metrics_of_the_first_epochs(tmp_path: Path) -> None:
    path = tmp_path / run_files.METRICS
    lines = [{"update": update, "seconds": 0.1 + update} for update in (2, 4, 6)]
    for line in lines:
        run_files.append_metrics(path, line)
    before = path.read_text().splitlines()
    run_files.keep_metrics(tmp_path, 2)
    assert path.read_text().splitlines() == before[:2]


def test_remove_temporary_files_of_the_run(tmp_path: Path) -> None:
    removed = {".checkpoint.safetensors.12.0123456789abcdef.tmp", ".model.safetensors.7.tmp"}
    kept = {".evaluation-test.json.12.0123.tmp", "run.json", ".hidden"}
    for name in removed | kept:
        (tmp_path / name).touch()
    run_files.remove_temporary_files(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept


@pytest.mark.filterwarnings("ignore::DeprecationWarning:tensorboard")
def test_epoch_log_in_tensorboard_of_a_resumed_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    command = ["train", "copy", "--out", str(tmp_path), "--tensorboard"]
    assert main([*command, *TINY]) == 0
    assert main([*command, "--resume", "--epochs", "3"]) == 0
    log, lines = (
        EventAccumulator(str(tmp_path / "tensorboard")),
        run_files.read_metrics(tmp_path / run_files.METRICS),
    )
    log.Reload()
    for group, name in (("training", "loss"), ("validation", "sequence_accuracy")):
        events = log.Scalars(f"{group}/{name}")
        values = [line[name] if group == "training" else line[group][name] for line in lines]
        assert [event.step for event in events] == [line["update"] for line in lines]
        assert len(events) == 3 and [event.value for event in events] == pytest.approx(values)
