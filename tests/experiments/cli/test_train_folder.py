import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from socket import socket
from typing import Any

import pytest

from graphut.experiments.training import trainer
from graphut.experiments.training.run_files import METRICS, read_metrics
from tests.experiments.cli.forks import start
from tests.experiments.cli.tiny import TINY


def test_train_says_that_a_folder_cannot_be_written(refusal: Callable[..., str]) -> None:
    said = refusal("train", "sort", *TINY, "--out", "/dev/null/run")
    assert said == "graphut: cannot write /dev/null/run: Not a directory\n"


def test_train_with_two_processes_of_which_one_dies_and_resume_with_one(
    tmp_path: Path, output: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ["train", "sort", *TINY, "--batch-size", "7", "--epochs", "3", "--out"]
    alone, together = tmp_path / "alone", tmp_path / "together"
    output(*argv, alone)
    add, updates = trainer.add_gradient, count(1)

    def add_until_death(*args: Any) -> Any:
        if next(updates) == 4 and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        return add(*args)

    with socket() as free:
        free.bind(("localhost", 0))
        group = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1])}
    with monkeypatch.context() as patched:
        patched.setattr(trainer, "add_gradient", add_until_death)
        processes = [
            start([*argv, str(together)], tmp_path / rank, RANK=rank, WORLD_SIZE="2", **group)
            for rank in "01"
        ]
        for process in processes:
            process.join(120)
    assert all(process.exitcode for process in processes)
    found = "".join((tmp_path / rank).read_text() for rank in "01")
    assert found.count("updates per epoch") == found.count("epoch 1: ") == 1
    assert len(read_metrics(together / METRICS)) == 1
    assert "resumed after 1 epoch and 3 updates" in output(
        "train", "sort", "--resume", "--device", "cpu", "--out", together
    )
    losses = [[line["loss"] for line in read_metrics(run / METRICS)] for run in (alone, together)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
