import json
import os
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from graphut.experiments.cli import main
from graphut.experiments.training import Run, Trainer, is_run
from graphut.experiments.training.learners.sequences import PairLearner
from graphut.experiments.training.optimization import learning_rate_factor
from graphut.experiments.training.run_files import CHECKPOINT
from tests.experiments.cli.forks import start
from tests.experiments.cli.tiny import TINY, assert_same_run

Command, Patch, Capture = Callable[..., str], pytest.MonkeyPatch, pytest.CaptureFixture[str]


@pytest.mark.parametrize("update", [1, 4])  # in the first epoch, and in the second
def test_train_goes_on_after_ctrl_c(
    tmp_path: Path, update: int, monkeypatch: Patch, capsys: Capture
) -> None:
    argv = ["train", "sort", *TINY, "--dropout", "0.1", "--out"]
    straight, stopped = tmp_path / "straight", tmp_path / "my run"
    assert main([*argv, str(straight)]) == 0
    updates, outcome = count(1), PairLearner.outcome

    def outcome_or_interrupt(*args: Any) -> Any:
        if next(updates) == update:
            raise KeyboardInterrupt
        return outcome(*args)

    with monkeypatch.context() as patched:
        patched.setattr(PairLearner, "outcome", outcome_or_interrupt)
        assert main([*argv, str(stopped), "--results", str(tmp_path / "rows.csv")]) == 130
    hint = f"stopped; to continue: graphut train sort --out '{stopped}' --resume"
    hint += f" --results={tmp_path / 'rows.csv'} --device=cpu\n"
    assert hint in capsys.readouterr().out
    assert main(["train", "sort", "--out", str(stopped), "--resume", "--device", "cpu"]) == 0
    assert_same_run(stopped, straight)


def test_train_begins_again_in_the_folder_of_a_run_without_an_epoch(
    tmp_path: Path, monkeypatch: Patch, refusal: Command
) -> None:
    argv = ["train", "sort", "--out", str(tmp_path / "run"), *TINY]
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_step", lambda self, numbers: self._stop_diverged("bad"))
        assert refusal(*argv) == (
            "graphut: bad: try a lower learning_rate or clip_norm, or a longer warmup\n"
        )
    assert main(argv) == 0
    assert "there is a run in" in refusal(*argv)


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.full)]
)
def test_train_goes_on_after_kills_at_any_moment(
    tmp_path: Path, kills: int, number: signal.Signals
) -> None:
    begin = ["train", "sort", *TINY, "--dropout", "0.1", "--epochs", "20"]
    resume = ["train", "sort", "--device", "cpu", "--resume"]
    random, folder = Random(kills), tmp_path / "killed"
    assert main([*begin, "--out", str(tmp_path / "straight")]) == 0

    def epochs() -> int:
        """Return the number of epochs that are saved, which are reported afterwards."""
        if not (folder / CHECKPOINT).exists():
            return 0
        data = (folder / CHECKPOINT).read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        return json.loads(header["__metadata__"]["state"])["epoch"]

    for _ in range(kills):
        before, argv = epochs(), [*(resume if is_run(folder) else begin), "--out", str(folder)]
        process = start(argv, tmp_path / "errors")
        while process.is_alive() and epochs() == before and before < 20:
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.1))
        if process.is_alive():
            os.kill(process.pid or 0, number)
        process.join()
        assert epochs() >= before
    assert main([*resume, "--out", str(folder)]) == 0
    assert_same_run(folder, tmp_path / "straight")


def test_train_trains_a_finished_run_longer(
    copied_run: Path, monkeypatch: Patch, output: Command, refusal: Command
) -> None:
    argv = ["train", "sort", "--resume", "--device", "cpu", "--out", copied_run]
    assert "began with epochs 2 and cannot be resumed with 1" in refusal(*argv, "--epochs", "1")
    rates, step = [], Trainer._step

    def step_and_record(trainer: Trainer, numbers: torch.Tensor) -> list[float]:
        read = step(trainer, numbers)
        rates.append(trainer.optimizer.param_groups[0]["lr"])
        return read

    monkeypatch.setattr(Trainer, "_step", step_and_record)
    said = output(*argv, "--epochs", "4")
    assert "resumed after 2 epochs and 4 updates" in said and "done after 4 epochs" in said
    config = Run.open(copied_run).training
    assert config.epochs == 4
    assert rates == [
        config.learning_rate * learning_rate_factor(done, config.warmup, 8) for done in range(4, 8)
    ]


def test_train_resumes_after_data_was_moved(
    tmp_path: Path, capsys: Capture, refusal: Command
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"a {'b ' * n}\t{'y ' * n}x\n" for n in range(1, 20)))
    options = TINY[TINY.index("--batch-size") :]
    run = ["--out", str(tmp_path / "run")]
    assert main(["train", "pairs", "--data", str(path), *run, *options]) == 0
    new = path.rename(tmp_path / "moved.tsv")
    hint = f"PATH, or give its new path: graphut train pairs --resume --data PATH --out {run[1]}"
    said = refusal("eval", run[1])
    assert f"{path}, the data of the run" in said and hint in said
    assert main(["eval", run[1], "--data", str(new)]) == 0
    other = tmp_path / "other.tsv"
    other.write_text(new.read_text().replace("b", "a", 1))
    said = refusal("train", "pairs", "--data", str(other), *run, "--resume")
    assert f"{other} is not {path}, with which the run in {run[1]} began" in said
    assert main(["train", "pairs", "--data", str(new), *run, "--resume"]) == 0
    assert main(["eval", str(tmp_path / "run")]) == 0
