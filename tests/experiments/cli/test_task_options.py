import re
from dataclasses import fields
from typing import Any

import pytest

from graphut.experiments.cli import main
from graphut.experiments.cli.task_options import read_options
from graphut.experiments.messages import flag
from graphut.experiments.tasks import TASKS, Sort
from graphut.experiments.training import TrainingConfig


@pytest.mark.parametrize("task", TASKS)
def test_read_options_help_shows_every_option_of_a_task(
    task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["train", task, "--help"])
    text = capsys.readouterr().out
    kinds: list[Any] = [TASKS[task], TrainingConfig, TASKS[task].config_kind]
    names = {field.name for kind in kinds for field in fields(kind)}
    missing = {name for name in names if f"  {flag(name)}" not in text}
    assert missing == set(TASKS[task].from_data)
    others = {field.name for kind in TASKS.values() for field in fields(kind)} - names
    assert not {name for name in others if f"  {flag(name)} " in text}


@pytest.mark.parametrize("task", TASKS)
def test_read_options_accepts_every_preset(task: str) -> None:
    data = ["--data", "x"] * any(field.name == "data" for field in fields(TASKS[task]))
    for preset in TASKS[task].presets:
        options = read_options("train", [task, "--out", "x", "--preset", preset, *data])
        assert options.preset == preset


def test_read_options_refuses_a_preset_of_unknown_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sort, "presets", {"small": {"epocs": 4}})
    message = "the preset 'small' of sort has no option 'epocs' to set; did you mean 'epochs'?"
    with pytest.raises(ValueError, match=re.escape(message)):
        read_options("train", ["sort", "--out", "run"])
