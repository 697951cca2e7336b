"""Questions and passages from the command line, on small files in the published ones' place."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from graphut._files import read_json
from graphut.experiments.cli import main
from graphut.experiments.tasks import babi, lambada
from graphut.experiments.tasks.files import DataSet

MODEL = shlex.split("--d-model 8 --num-heads 2 --d-hidden 8 --max-steps 2 --epochs 1 --device cpu")
STORY = """1 Mary went to the hall.
2 John went to the garden.
3 Where is Mary? \thall\t1
4 Mary is tired.
5 Where is John? \tgarden\t2
"""
PASSAGE = "the key to the door is the key\nhe lost the old dog\n" * 3


@pytest.fixture
def stories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with two tasks of bAbI's form."""
    folder = tmp_path / "stories"
    for number in (1, 2):
        for part in ("train", "valid", "test"):
            path = folder / f"en-valid/qa{number}_{part}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(STORY * 4)
    monkeypatch.setattr(babi, "_CHECKSUMS", {})
    return str(folder)


@pytest.fixture
def passages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder with LAMBADA's files."""
    known = lambada.LAMBADA
    for name in known.checksums:
        (tmp_path / name).write_text(PASSAGE)
    data = DataSet(known.origin, dict.fromkeys(known.checksums))
    monkeypatch.setattr(lambada, "LAMBADA", data)
    return str(tmp_path)


def test_questions(stories: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    assert main(["train", "babi", "--data", stories, "--tasks", "1,2", "--out", run, *MODEL]) == 0
    said = capsys.readouterr().out
    assert "of answers wrong" in said and "mary went to the hall" in said and "right: hall" in said
    assert main(["eval", run, "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "test, 16 questions",
        "qa1, 8 questions",
        "qa2, 8 questions",
    ]
    record = read_json(Path(run, "evaluation-test.json"))
    assert [row["group"] for row in record["by_group"]] == ["qa1", "qa2"]
    assert [row["supporting"] for row in record["by_supporting"]] == [1]
    asked = "John went to the hall. Where is John?"
    assert main(["generate", run, asked, "--device", "cpu"]) == 0
    *_, last, answer = capsys.readouterr().out.splitlines()
    assert last.endswith("  Where is John?")
    assert answer.startswith(("answer  hall (", "answer  garden ("))
    own = tmp_path / "own.txt"
    own.write_text(STORY)
    assert main(["eval", run, "--data", str(own), "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith(f"{own}, 2 questions: ")


def test_data_without_known_checksums_may_not_change(
    stories: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    assert main(["train", "babi", "--data", stories, "--out", run, *MODEL]) == 0
    path = Path(stories, "en-valid/qa1_test.txt")
    path.write_text(path.read_text() + STORY)  # no new word
    assert main(["eval", run]) == 2
    assert "qa1_test.txt has changed since the run in" in capsys.readouterr().err


def test_a_folder_of_data_may_be_moved(
    stories: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(tmp_path / "run")
    assert main(["train", "babi", "--data", stories, "--out", run, *MODEL]) == 0
    moved = Path(stories).rename(tmp_path / "moved")
    assert main(["eval", run]) == 2
    assert f"graphut train babi --resume --data PATH --out {run}" in capsys.readouterr().err
    assert main(["train", "babi", "--resume", "--data", str(moved), "--out", run]) == 0
    assert main(["eval", run]) == 0


def test_passages(passages: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    arguments = ["--data", passages, "--held-out", "2", "--out", run, *MODEL]
    assert main(["train", "lambada-reading", *arguments]) == 0
    assert "of answers right" in capsys.readouterr().out
    assert main(["eval", run, "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith("test, 6 passages: ")
    assert main(["generate", run, "the umbrella", "--device", "cpu"]) == 0
    asked, _, answer = capsys.readouterr().out.strip().splitlines()
    assert asked == "input   the umbrella"
    assert answer.split()[1] in ("the", "umbrella")


def test_mistakes(stories: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    for arguments, message in (
        (["--tasks", "21", "--data", stories], "tasks must be numbers from 1 to 20"),
        (["--data", str(tmp_path)], "qa1_train.txt; missing in the folder: en-valid/qa1_train"),
        (["--tasks", "1"], "--data is missing: folder of bAbI, from https"),
        (["--data", stories, "--tie-output"], "--tie-output is no option of the task babi"),
    ):
        assert main(["train", "babi", "--out", str(run), *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
        assert not run.exists()
    assert main(["train", "babi", "--data", stories, "--out", str(run), *MODEL]) == 0
    for text, message in (("Where is Bill?", "'bill'"), ("?", "'?' has no sentence")):
        assert main(["generate", str(run), text, "--device", "cpu"]) == 2
        assert message in capsys.readouterr().err
    assert main(["generate", str(run), "Where is Mary?", "--temperature", "1"]) == 2
    assert "--temperature is no option of the task babi" in capsys.readouterr().err
    long = "John John went to the the the hall."
    assert main(["generate", str(run), long, "--device", "cpu"]) == 2
    assert "a sentence has 8 words, but the model takes 5 at most" in capsys.readouterr().err
