from __future__ import annotations

from pathlib import Path

import pytest

from graphut.cli import main
from graphut.training import Run


def test_steps_stand_under_input_and_output(
    finished_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", str(finished_run), "q d x a", "b", "--max-length", "9"]) == 0
    run = Run.open(finished_run)
    model, letters = run.model(), run.source_vocabulary
    sources = [letters.encode(["q", "d", "x", "a"]), letters.encode(["b"])]
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    for source, result in zip(sources, model.generate(sources, max_length=9), strict=True):
        printed = dict(zip(("input", "taken", "output", "steps"), rows[:4], strict=True))
        rows = rows[4:]
        assert printed["input"] == ["input", *letters.decode(source)]
        assert printed["taken"] == ["steps", *map(str, result.source_steps)]
        output = letters.decode(result.tokens)
        assert [symbol for symbol in printed["output"][1:] if symbol != "<eos>"] == output
        assert printed["steps"] == ["steps", *map(str, result.steps)]
    assert not rows


def test_draws_depend_on_the_seed(finished_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def drawn(seed: int) -> str:
        argv = ["--temperature", "5", "--max-length", "30", "--seed", str(seed)]
        assert main(["generate", str(finished_run), "q d x a", *argv]) == 0
        return capsys.readouterr().out

    assert drawn(1) == drawn(1) != drawn(2)


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
