import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from graphut.experiments.cli import main
from graphut.experiments.report import RunRecord
from graphut.experiments.tasks import Copy
from graphut.experiments.training import Run
from graphut.experiments.training.learners.sequences import PairLearner
from graphut.models import load
from tests.experiments.cli.tiny import TINY, assert_same_run

Command = Callable[..., str]


def interrupted(*args: object) -> None:
    raise KeyboardInterrupt


def test_train_ends_with_the_test_set_and_a_few_answers(tmp_path: Path, output: Command) -> None:
    lines = output("train", "copy", "--out", tmp_path / "run", *TINY).splitlines()
    announced = r"[\d,]+ weights on \w+; 2 updates per epoch, at most 2 epochs"
    assert re.fullmatch(announced, lines[0])
    assert [line[:8] for line in lines if line.startswith("epoch")] == ["epoch 1:", "epoch 2:"]
    assert "done after 2 epochs: all epochs are done" in lines
    test = next(line for line in lines if line.startswith("test"))
    assert re.match(r"test, 4 sequences: sequence accuracy [\d.]+%, token accuracy [\d.]+%", test)
    answer = [line.split()[0] for line in lines[lines.index(test) + 1 :] if line]
    assert [word for word in answer if word != "+"][-4:] == ["input", "steps", "output", "steps"]


def test_train_repeats_a_run_by_its_command(tmp_path: Path) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    halting = ["--dropout", "0.1", "--halting-bias=-1e-05", "--evaluation-rule", "convergence"]
    assert main(["train", "sort", *TINY, *halting, "--seed", "3", "--out", str(first)]) == 0
    command = RunRecord.of(Run.open(first)).command
    words = shlex.split(command.replace(" RUN", f" {again}"))
    assert main([*words[1:], "--device", "cpu"]) == 0
    assert_same_run(again, first)
    for name in ("run.json", "config.json", "evaluation-test.json"):
        assert (again / name).read_bytes() == (first / name).read_bytes()


def test_train_prefers_an_option_to_a_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preset = {"patience": 5, "batch_size": 3, "d_model": 16, "short_share": 0.5}
    monkeypatch.setattr(Copy, "presets", {"small": {"patience": 6}, "huge": preset})
    main(["train", "copy", "--preset", "huge", "--out", str(tmp_path / "run"), *TINY])
    run = Run.open(tmp_path / "run")
    assert (run.training.patience, run.training.batch_size) == (5, 8)
    assert run.model().config.d_model == 8
    assert run.task_options["short_share"] == 0.5


def test_train_says_that_memory_is_too_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Command
) -> None:
    monkeypatch.setattr(PairLearner, "outcome", lambda *batch: torch.empty(2**50))
    said = refusal("train", "sort", "--out", str(tmp_path / "run"), *TINY)
    assert said.startswith("graphut: out of memory: use a smaller batch, model or max_steps (")


@pytest.mark.parametrize("command", [["eval"], ["generate", "a"]])
def test_generate_and_eval_need_an_epoch_done(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch, refusal: Command
) -> None:
    name, *text = command
    folder = str(tmp_path / "run")
    monkeypatch.setattr(PairLearner, "outcome", interrupted)
    assert main(["train", "copy", "--out", folder, *TINY]) == 130
    hint = f"it has no model yet: graphut train copy --out {folder} --resume"
    assert hint in refusal(name, folder, *text)
    with pytest.raises(ValueError, match=hint):
        load(folder)


def test_train_loads_what_a_task_needs(tmp_path: Path) -> None:
    """Letters need no graphs, pictures, GPU programs, convolutions or other tasks."""
    argv = ["train", "sort", *TINY, "--out", str(tmp_path / "run")]
    code = f"""
import sys
from graphut.experiments.cli import main
assert main({argv!r}) == 0
print(*(name for name in sys.modules if name.split(".")[0] == "graphut"))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = run.stdout.splitlines()[-1].split()
    assert len(names) <= 90
    others = "plotting|nn.gpu|triton|report|graph_|hetero|distributed|adaptive_conv|adapters"
    assert not [name for name in names if re.search(others, name)]
