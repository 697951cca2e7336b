from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from graphut.experiments.cli import main
from graphut.experiments.cli.train_options import read_options
from graphut.experiments.tasks import TASKS
from graphut.experiments.training import Run, TrainingConfig, learner_of
from graphut.experiments.wording import flag
from tests.experiments.cli.tiny import TINY


@pytest.mark.parametrize("task", TASKS)
def test_read_options_help_shows_every_option_of_a_task(
    task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["train", task, "--help"])
    text = capsys.readouterr().out
    learner = learner_of(TASKS[task])
    kinds: list[Any] = [TASKS[task], TrainingConfig, learner.config_kind]
    names = {field.name for kind in kinds for field in fields(kind)}
    missing = {name for name in names if f"  {flag(name)}" not in text}
    assert missing == set(learner.from_task)
    others = {field.name for kind in TASKS.values() for field in fields(kind)} - names
    assert not {name for name in others if f"  {flag(name)} " in text}


def test_read_options_help_shows_every_task(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in TASKS)
    assert "--learning-rate" in text and "--d-model" in text
    assert "--mean-length" not in text and "--encoder-topology" not in text


def test_read_options_takes_the_task_last(tmp_path: Path) -> None:
    argv = [*TINY, "--encoder-topology", "window:2", "--out", str(tmp_path / "run")]
    assert main(["train", *argv, "copy"]) == 0
    run = Run.open(tmp_path / "run")
    assert run.task_options["mean_length"] == 3
    assert run.model().config.to_dict()["encoder_topology"] == "window:2"


def test_read_options_takes_a_file_before_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("# mine\nepochs: 3\nlearning_rate: 1e-5\nadaptive: no\nrule:\npreset: fixed\n")
    argv = ["sort", "--out", "x"]
    given = read_options([*argv, "--config", str(path), "--epochs", "9"])
    wanted = ["--epochs", "9", "--learning-rate", "1e-5", "--no-adaptive", "--preset", "fixed"]
    assert given == read_options([*argv, *wanted])
    other = tmp_path / "other.yaml"
    other.write_text("epochs: 9\n")
    files = ["--config", str(path), "--config", str(other)]
    assert read_options([*argv, *files]) == given
    for nothing in ("", "resume: false"):
        path.write_text(nothing)
        assert read_options([*argv, "--config", str(path)]) == read_options(argv)


def test_read_options_takes_the_names_of_older_versions(tmp_path: Path) -> None:
    path = tmp_path / "old.yaml"
    path.write_text("frame_source: true\nthreshold: 0.9")
    options = read_options(["sort", "--out", "x", "--config", str(path)])
    assert options["add_bos_eos"] is True and options["rule"] == "act:threshold=0.9"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch: 3", "mine.yaml: 'epoch' is no option; did you mean 'epochs'?"),
        ("window: 3", "mine.yaml: 'window' is no option"),
        ("7: 3", "mine.yaml: 7 is no option"),
        ("config: other.yaml", "mine.yaml: 'config' is no option"),
        ("no_adaptive: true", "mine.yaml: 'no_adaptive' is no option; did you mean 'adaptive'?"),
        ("adaptive: 1", "mine.yaml: adaptive must be true or false, got 1"),
        ("task: copy", "mine.yaml has options of the task copy, not of sort"),
        ("epochs: [3]", "mine.yaml must have an option in each line, such as 'epochs: 3'"),
        ("epochs: 3\nepochs: 4", "mine.yaml is no YAML file: 'epochs' comes twice"),
        ("just text", "mine.yaml must have an option in each line"),
        ("a: b: c", "mine.yaml is no YAML file: mapping values are not allowed here"),
        ("!!python/object:os.system {}", "mine.yaml is no YAML file: could not determine"),
    ],
)
def test_read_options_refuses_a_wrong_file_in_one_line(
    tmp_path: Path, text: str, message: str, refusal: Callable[..., str]
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    argv = ["train", "sort", "--out", str(tmp_path / "run"), "--config"]
    assert message in refusal(*argv, str(path))
    assert "there is no nowhere.yaml" in refusal(*argv, "nowhere.yaml")


@pytest.mark.parametrize(("value", "read"), [("many", "many"), ("true", "True")])
def test_read_options_refuses_a_wrong_value_in_a_file(
    value: str, read: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"epochs: {value}")
    with pytest.raises(SystemExit):
        read_options(["sort", "--config", str(path), "--out", "x"])
    said = capsys.readouterr().err
    assert f"mine.yaml: argument --epochs: invalid int value: '{read}'" in said


def test_read_options_refuses_a_preset_of_which_a_file_leaves_nothing(
    tmp_path: Path, finished_run: Path
) -> None:
    argv = ["sort", "--out", str(tmp_path / "run"), "--config", f"{finished_run}/options.yaml"]
    with pytest.raises(ValueError, match=r"--preset fixed has no effect: .*options\.yaml sets"):
        read_options([*argv, "--preset", "fixed"])
    few = tmp_path / "few.yaml"
    few.write_text("epochs: 3")
    assert read_options(["sort", "--out", "x", "--config", str(few), "--preset", "fixed"])


def test_read_options_refuses_a_rule_without_halting(tmp_path: Path) -> None:
    for others in (["--preset", "fixed"], ["--no-adaptive"]):
        with pytest.raises(ValueError, match="--rule ponder_net has no effect: without halting"):
            read_options(["sort", "--out", "x", "--rule", "ponder_net", *others])
    assert read_options(["sort", "--out", "x", "--rule", "ponder_net"])["rule"] == "ponder_net"
