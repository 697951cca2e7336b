import os
import re
import resource
import signal
import time
from collections.abc import Callable, Sequence
from itertools import count, product
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from graphut._files import read_checked_json, with_checksum, write_json
from graphut.experiments.cli import main
from graphut.experiments.training import Run, Trainer, is_run, trainer
from graphut.experiments.training.learners.pairs import PairLearner
from graphut.experiments.training.optimization import learning_rate_factor
from graphut.experiments.training.run_files import METRICS, read_metrics
from tests.experiments.cli.forks import start
from tests.experiments.cli.tiny import TINY, assert_same_run

Command, Patch, Capture = Callable[..., str], pytest.MonkeyPatch, pytest.CaptureFixture[str]


def test_train_removes_a_run_that_ends_before_its_first_update(
    tmp_path: Path, monkeypatch: Patch, refusal: Command
) -> None:
    def interrupted(run: Run) -> None:
        raise KeyboardInterrupt

    argv = ["train", "sort", "--out", str(tmp_path / "run"), *TINY]
    with monkeypatch.context() as patched:
        patched.setattr(Run, "model", interrupted)
        assert main(argv) == 130
    norms = iter([torch.tensor(1.0), torch.tensor(float("inf"))])
    with monkeypatch.context() as patched:  # diverges
        patched.setattr(trainer, "clip_grad_norm_", lambda *args: next(norms))
        assert "try a lower learning_rate" in refusal(*argv)
    assert main(argv) == 0


@pytest.mark.parametrize(
    "removed", [["checkpoint.safetensors"], ["checkpoint.safetensors", "run.json"]]
)
def test_train_begins_where_it_was_killed_before_the_first_checkpoint(
    tmp_path: Path, removed: list[str], capsys: Capture
) -> None:
    argv = ["train", "sort", *TINY, "--dropout", "0.1", "--out"]
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    assert main([*argv, str(straight)]) == 0
    assert main([*argv, str(killed), "--minutes", "1e-9"]) == 0
    for name in removed:
        (killed / name).unlink()
    begin = [*argv, str(killed)]
    if "run.json" not in removed:
        assert main(begin) == 2
        assert "--resume it" in capsys.readouterr().err
        begin = ["train", "sort", "--resume", "--device", "cpu", "--out", str(killed)]
    assert main(begin) == 0
    assert_same_run(killed, straight)


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.full)])
def test_train_goes_on_after_kills_while_saving(
    tmp_path: Path, kills: int, monkeypatch: Patch
) -> None:
    begin = ["train", "sort", *TINY, "--dropout", "0.1", "--epochs", "20"]
    resume = ["train", "sort", "--device", "cpu", "--resume"]
    random, folder = Random(kills), tmp_path / "killed"
    machines = folder / "machines.json"
    assert main([*begin, "--out", str(tmp_path / "straight")]) == 0
    monkeypatch.setattr(trainer, "SAVE_EVERY", 0.0)
    for _ in range(kills):
        argv = [*(resume if is_run(folder) else begin), "--out", str(folder)]
        before = machines.exists() and (folder / "run.json").stat().st_mtime
        process = start(argv, tmp_path / "errors")
        while process.is_alive():
            if (machines.exists() and (folder / "run.json").stat().st_mtime) != before:
                break  # it has begun to train
        time.sleep(random.uniform(0, 0.3))
        process.kill()
        process.join()
    assert main([*(resume if is_run(folder) else begin), "--out", str(folder)]) == 0
    assert_same_run(folder, tmp_path / "straight")


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@pytest.mark.parametrize(
    ("numbers", "points"),
    [([signal.SIGTERM], 1), pytest.param(SIGNALS, 20, marks=pytest.mark.full)],
)
def test_train_goes_on_after_a_signal_at_any_moment(
    tmp_path: Path, numbers: Sequence[signal.Signals], points: int
) -> None:
    begin = ["train", "sort", *TINY, "--dropout", "0.1", "--epochs", "12", "--out"]
    resume = ["train", "sort", "--device", "cpu", "--resume", "--out"]

    def run(folder: Path, seconds: float, number: signal.Signals) -> float:
        """Stop a run so many seconds after its folder is there; return those that it took."""
        process = start([*begin, str(folder)], tmp_path / "errors")
        while not folder.exists():
            assert process.is_alive()
        began = time.monotonic()
        process.join(seconds)
        if process.is_alive():
            os.kill(process.pid or 0, number)
        process.join()
        assert process.exitcode in (0, -number, 128 + number)
        assert (tmp_path / "errors").read_text() == ""
        return time.monotonic() - began

    seconds = run(tmp_path / "straight", 600.0, signal.SIGKILL)
    for number, point in product(numbers, range(points)):
        folder = tmp_path / f"{number.name}-{point}"
        run(folder, seconds * (point + 0.5) / points, number)
        assert main([*(resume if is_run(folder) else begin), str(folder)]) == 0
        assert_same_run(folder, tmp_path / "straight")


def test_train_goes_on_where_a_file_could_not_be_written(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    argv = ["train", "sort", *TINY, "--dropout", "0.1", "--out"]
    straight, full = tmp_path / "straight", tmp_path / "full"
    assert main([*argv, str(straight)]) == 0
    updates, outcome = count(1), PairLearner.outcome
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def outcome_without_room(*args: Any) -> Any:
        if next(updates) == 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        return outcome(*args)

    monkeypatch.setattr(PairLearner, "outcome", outcome_without_room)
    assert main([*argv, str(full)]) == 2
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    said = capsys.readouterr().err
    assert re.search(rf"graphut: .*cannot write {full}/\S+: File too large: raise", said)
    assert main([*argv, str(full), "--resume"]) == 0
    assert_same_run(full, straight)


def test_train_resumes_a_run_older_than_an_option(copied_run: Path) -> None:
    path = copied_run / "run.json"
    state = read_checked_json(path)
    del state["task_options"]["short_share"]
    write_json(path, with_checksum(state))
    assert main(["train", "sort", "--out", str(path.parent), "--resume"]) == 0


def test_train_trains_a_finished_run_longer(
    copied_run: Path, monkeypatch: Patch, output: Command, refusal: Command
) -> None:
    argv = ["train", "sort", "--resume", "--device", "cpu", "--out", copied_run]
    assert "began with epochs 2 and cannot be resumed with 1" in refusal(*argv, "--epochs", "1")
    rates, step = [], Trainer._step

    def step_and_record(trainer: Trainer, numbers: torch.Tensor) -> list[float]:
        rates.append(trainer.optimizer.param_groups[0]["lr"])
        return step(trainer, numbers)

    monkeypatch.setattr(Trainer, "_step", step_and_record)
    said = output(*argv, "--epochs", "4")
    assert "resumed after update 4, 2 epochs" in said and "done after 4 epochs" in said
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
    assert main(["eval", str(tmp_path / "run")]) == 2
    hint = f"train pairs --resume --data PATH --out {tmp_path / 'run'}"
    assert f"{path}, the data of the run" in (said := capsys.readouterr().err) and hint in said
    other = tmp_path / "other.tsv"
    other.write_text(new.read_text().replace("b", "a", 1))
    assert "other.tsv has changed since the run" in refusal(
        "train", "pairs", "--data", str(other), *run, "--resume"
    )
    assert main(["train", "pairs", "--data", str(new), *run, "--resume"]) == 0
    assert main(["eval", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_train_stops_on_a_signal_ready_to_be_resumed(
    tmp_path: Path, number: signal.Signals, monkeypatch: Patch, capsys: Capture, output: Command
) -> None:
    folder, losses, outcome = tmp_path / "my run", [], PairLearner.outcome

    def outcome_with_signal(*args: Any) -> Any:
        losses.append(outcome(*args))
        if len(losses) == 3:
            signal.raise_signal(number)
        return losses[-1]

    monkeypatch.setattr(PairLearner, "outcome", outcome_with_signal)
    assert main(["train", "copy", "--out", str(folder), *TINY]) == 128 + number
    hint = f"to continue: graphut train copy --out '{folder}' --resume"
    assert hint in capsys.readouterr().out
    assert len(losses) == 3
    monkeypatch.undo()
    resume = ["train", "copy", "--out", folder, "--resume", "--device", "cpu"]
    assert "test, 4 sequences" in output(*resume)
    assert [line["update"] for line in read_metrics(folder / METRICS)] == [2, 4]


def test_train_stops_after_minutes(tmp_path: Path, output: Command) -> None:
    text = output("train", "copy", "--out", tmp_path / "run", "--minutes", "1e-9", *TINY)
    announced, stopped = text.splitlines()
    assert re.fullmatch(r"[\d,]+ weights on \w+; 2 updates per epoch, at most 2 epochs", announced)
    assert stopped.startswith("stopped; to continue: graphut train copy")
    assert not (tmp_path / "run" / METRICS).exists()
