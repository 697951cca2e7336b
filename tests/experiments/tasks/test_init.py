from pathlib import Path

import pytest

from graphut.experiments.cli import main
from graphut.experiments.report import RunRecord
from graphut.experiments.tasks import TASKS, preset_of
from graphut.experiments.training import Run
from tests.experiments.cli.tiny import TINY
from tests.helpers import refuses


def test_preset_of_quotes_an_unknown_preset() -> None:
    assert {name for name in TASKS if not preset_of(name)} == {"pairs"}
    message = "the task sort has no preset 'x'; it has: small, fixed, transformer"
    refuses(message, preset_of, "sort", "x")


TWO_TASKS = """
from graphut.experiments.tasks.algorithmic import Copy, Reverse

class Twice(Reverse):
    name = "twice"
    presets = {"small": {"epochs": 1}}

class Thrice(Copy):
    name = "thrice"
"""
OPTIONS = """
from dataclasses import dataclass
from pathlib import Path
from graphut.experiments.tasks.algorithmic import Copy
from graphut.models.checked_config import option

@dataclass(frozen=True, kw_only=True)
class Many(Copy):
    name, presets = "many", {}
    extra: tuple[int, ...] = option((4, 5), "numbers")
    file: Path | None = option(None, "a file")
    needed: Path = option("options.py", "a file")
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with tasks, in the current folder."""
    (tmp_path / "two.py").write_text(TWO_TASKS)
    (tmp_path / "one.py").write_text(TWO_TASKS.partition("class Thrice")[0])
    (tmp_path / "none.py").write_text("from graphut.experiments.tasks import Copy")
    (tmp_path / "broken.py").write_text("\n1 / 0")
    monkeypatch.chdir(tmp_path)


def test_tasks_finds_the_task_of_a_file(files: None) -> None:
    assert TASKS["one.py"] is TASKS["one.py:twice"] is TASKS["./one.py"]  # imported once
    assert TASKS["two.py:thrice"].name == "thrice"
    assert preset_of("two.py:twice") == {"epochs": 1}
    assert "one.py" in TASKS and "one.py" not in list(TASKS)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("far/one.py", "there is no far/one.py: the path of a task's file begins at the current"),
        ("two.py", "two.py: name one of its tasks: two.py:twice, two.py:thrice"),
        ("two.py:x", "two.py:x: name one of its tasks: two.py:twice, two.py:thrice"),
        ("none.py", "none.py: it defines no task"),
        ("broken.py", "broken.py: line 2 of broken.py: ZeroDivisionError: division by zero"),
    ],
)
def test_tasks_says_what_is_wrong_with_a_file(
    word: str, message: str, files: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", word, "--out", "run"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"graphut: {message}") and said.count("\n") == 1


def test_run_remembers_several_numbers_and_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("options.py").write_text(OPTIONS)
    more = ["--extra", "6", "7", "--needed", "options.py"]
    assert main(["train", "options.py", "--out", "run", *more, *TINY]) == 0
    assert main(["eval", "run"]) == 0
    task = Run.open("run").task()
    assert (task.extra, task.needed) == ((6, 7), str(tmp_path / "options.py"))
    assert "--extra 6 7" in RunRecord.of(Run.open("run")).command


def test_run_remembers_the_file_of_its_task(
    files: None, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (
        ["train", "one.py", "--out", "run", *TINY],
        ["train", "one.py", "--out", "run", "--resume", "--epochs", "2", "--device", "cpu"],
        ["eval", "run"],
        ["generate", "run", "q d x a"],
    ):
        assert main(command) == 0
    assert Run.open("run").task_name == "one.py"
    command = RunRecord.of(Run.open("run")).command
    assert command.startswith("graphut train one.py --preset small")
    capsys.readouterr()
    Path("one.py").unlink()
    assert main(["eval", "run"]) == 2
    assert capsys.readouterr().err.startswith("graphut: there is no one.py")
