from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from graphut.experiments.cli import main, show
from graphut.experiments.training import GenerationOptions, Run
from tests.plotting.pictures import assert_nothing_is_cut_off

Command = Callable[..., str]


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(show, "save_figure", lambda figure, path: found.append(figure))
    return found


def test_show_writes_a_picture_and_the_answer(
    finished_run: Path, tmp_path: Path, output: Command
) -> None:
    out = tmp_path / "thinking.png"
    line, *tables = output("show", finished_run, "q d x a", "--out", out).splitlines()
    assert out.read_bytes().startswith(b"\x89PNG")
    run = Run.open(finished_run)
    [said] = run.learner(run.model()).generate(["qdxa"], GenerationOptions(), get_attention=True)
    assert line == f"{out}: the answer is {said.text}"
    assert "\n".join(tables) == "\n".join(part.table() for part in said.parts)


@pytest.mark.parametrize(
    ("text", "what"),
    [("a", "attention"), ("q d x a", "ponder"), ("abcdefghijkl" * 4, None)],
)
def test_show_cuts_nothing_off(
    text: str, what: str | None, finished_run: Path, figures: list[Any]
) -> None:
    argv = ["--out", "a.png", "--max-length", "20", *(["--draw", what] if what else [])]
    assert main(["show", str(finished_run), text, *argv]) == 0
    assert_nothing_is_cut_off(figures[0])
    titles = [part._suptitle.get_text() for part in figures[0].subfigs]
    assert len(titles) == {None: 2, "ponder": 2, "attention": 3}[what]


def test_show_animates_the_frontier(finished_run: Path, tmp_path: Path, output: Command) -> None:
    out = tmp_path / "a.gif"
    output("show", finished_run, "q d x a", "--max-length", 5, "--out", out)
    with Image.open(out) as picture:
        assert picture.n_frames in (2, 3)  # type: ignore[attr-defined]
