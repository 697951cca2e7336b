from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from graphut.experiments.cli import main
from graphut.experiments.training import GenerationOptions, Run


def test_the_options_reach_the_learner(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(finished_run), "q d x a", "qdxa", "--max-length", "9"]) == 0
    run = Run.open(finished_run)
    options = GenerationOptions(max_length=9)
    said = run.learner.generate(run.model(), run.vocabularies, ["q d x a"] * 2, options)
    assert capsys.readouterr().out == "".join(f"\n{shown}\n" for _, shown in said)


def test_a_file_is_answered_line_by_line(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("graphut.experiments.training.generation._BATCH", 2)
    texts = ["q d x a", "b", "c a"]
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in texts))
    options = ["--plain", "--max-length", "4"]
    assert main(["generate", str(finished_run), *texts, *options]) == 0
    answers = capsys.readouterr().out
    assert answers.count("\n") == 3
    assert main(["generate", str(finished_run), "--input", str(path), *options]) == 0
    assert capsys.readouterr().out == answers
    monkeypatch.setattr("sys.stdin", StringIO(path.read_text()))
    assert main(["generate", str(finished_run), "--input", "-", *options]) == 0
    assert capsys.readouterr().out == answers
    path.write_text("a\n\nb\n")
    assert main(["generate", str(finished_run), "--input", str(path)]) == 2
    assert f"line 2 of {path} is empty" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [[], ["a", "--input", "texts.txt"]])
def test_texts_are_given_in_one_way(
    finished_run: Path, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(finished_run), *argv]) == 2
    assert "give either texts, or a file of them" in capsys.readouterr().err


def test_draws_depend_on_the_seed(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def drawn(seed: int) -> str:
        argv = ["--temperature", "5", "--max-length", "30", "--seed", str(seed)]
        assert main(["generate", str(finished_run), "q d x a", *argv]) == 0
        return capsys.readouterr().out

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_program_is_read_as_python_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--epoch-size", "8", "--held-out", "2", "--epochs", "1", "--d-model", "8"]
    assert main(["train", "lte-control", "--out", str(tmp_path / "run"), *sizes]) == 0
    capsys.readouterr()
    program = "f=5\nprint((6 if f>4 else 3))"
    assert main(["generate", str(tmp_path / "run"), program, "--max-length", "3"]) == 0
    shown = capsys.readouterr().out.splitlines()[1].split()
    assert "".join(shown) == "input" + program.replace("\n", "⏎").replace(" ", "␣")


def test_an_output_without_an_end_says_so(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(finished_run), "q d x a", "--max-length", "1"]) == 0
    output, _, notice = capsys.readouterr().out.splitlines()[3:]
    assert "<eos>" not in output
    assert notice == "cut off at the max_length of 1"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["q D"], "unknown symbol 'D'; known are: a b c"),
        ([" "], ""),
        (["a", "--beam-size", "0"], "0"),
        (["a", "--temperature", "-1"], "-1"),
        (["a", "--top-p", "2"], "2"),
        (["a", "--max-length", "-3"], "-3"),
    ],
)
def test_bad_input_takes_one_line(
    finished_run: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(finished_run), *argv]) == 2
    text = capsys.readouterr().err
    assert text.startswith("graphut: ") and message in text
