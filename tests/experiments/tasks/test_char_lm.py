from pathlib import Path
from random import Random

import pytest

from graphut.experiments.tasks import Text
from graphut.experiments.tasks.char_lm import CharLM

TEXT = "".join(Random(0).choices("ab\n ", k=400))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "text.txt"


def counted(task: CharLM, texts: list[Text]) -> str:
    return "".join(task.vocabulary.write(text.tokens[text.context :]) for text in texts)


def test_char_lm_the_parts_are_the_file(path: Path) -> None:
    task = CharLM(path, window=8)
    assert counted(task, task.validation) == TEXT[360:380]
    assert counted(task, task.test) == TEXT[380:]
    assert task.vocabulary.symbols == ("\n", " ", "a", "b")
    texts = task.train(0, 0)
    assert len(texts) == 2000 and texts != task.train(0, 1) and texts == task.train(0, 0)
    windows = {task.vocabulary.write(text.tokens) for text in texts}
    assert windows <= {TEXT[start : start + 8] for start in range(353)}


def test_char_lm_refuses_wrong_input(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"text.txt has 400 characters: too few for windows of 21"):
        CharLM(path, window=21).validation  # noqa: B018
    (tmp_path / "other").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="other is not a text file in UTF-8"):
        CharLM(tmp_path / "other").validation  # noqa: B018
    with pytest.raises(FileNotFoundError, match="nothing; get tiny-shakespeare from"):
        CharLM(tmp_path / "nothing").vocabulary  # noqa: B018
    with pytest.raises(IsADirectoryError, match="is a folder: name a text file in it"):
        CharLM(tmp_path).vocabulary  # noqa: B018


def test_char_lm_reads_a_text_of_ones_own(path: Path, tmp_path: Path) -> None:
    task = CharLM(path, window=8)
    other = tmp_path / "other.txt"
    other.write_text("ab ba\nabba ab")
    texts = task.read(other, task.vocabulary)
    assert counted(task, texts) == "ab ba\nabba ab"
    assert max(len(text.tokens) for text in texts) == 8
    other.write_text("abc")
    with pytest.raises(ValueError, match=r"other\.txt: unknown symbol 'c'"):
        task.read(other, task.vocabulary)
