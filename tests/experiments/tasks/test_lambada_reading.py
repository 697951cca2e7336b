from __future__ import annotations

from pathlib import Path

import pytest

from graphut.experiments.tasks import LambadaReading
from graphut.experiments.tasks.words import UNKNOWN


@pytest.mark.data
def test_every_passage_of_the_files_is_there(lambada_folder: Path) -> None:
    task = LambadaReading(lambada_folder)
    lines = (lambada_folder / "lambada_test_plain_text.txt").read_text().splitlines()
    found = [task.vocabulary.write([*p.context, p.answer]) for p in task.test]
    assert found == [" ".join(line.split()) for line in lines]
    assert UNKNOWN not in " ".join(found).split()
    assert sum(p.answer in p.context for p in task.test) == 4261


@pytest.mark.data
def test_development_passages_are_trained_on_where_there_is_nothing_else(
    lambada_folder: Path,
) -> None:
    task = LambadaReading(lambada_folder, held_out=100)
    train, validation = task.train(0, 0), task.validation
    assert len(validation) == 100 and task.train(1, 2) == train
    assert all(p.answer in p.context for p in train)
    every = {(*p.context, p.answer) for p in train + validation}
    lines = (lambada_folder / "lambada_development_plain_text.txt").read_text().splitlines()
    passages = {tuple(task.vocabulary.read(line)) for line in lines}
    assert every < passages
    assert all(p[-1] not in p[:-1] for p in passages - every)
    assert not {tuple(p.context) for p in train} & {tuple(p.context) for p in validation}


@pytest.mark.data
def test_passages_of_ones_own(lambada_folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "passages.txt"
    path.write_text("the cat saw the dog and the dog saw the cat\nno zyzzyva here\n")
    task = LambadaReading(lambada_folder, passages=path, words=2)
    [passage] = task.train(0, 0)
    words = task.vocabulary.write([*passage.context, passage.answer])
    assert words == "the cat saw the dog and the dog saw the cat"
    assert (len(task.validation), len(task.test)) == (4869, 5153)
    assert "zyzzyva" not in task.vocabulary


@pytest.mark.data
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b a\nc\n", "line 2: a passage has two words at least"),
        ("a b\nc d\n", "has no passage with its last word in it before"),
        ("", "line 1: a passage has two words at least"),
    ],
)
def test_passages_that_are_none(
    text: str, message: str, lambada_folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "passages.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"passages.txt.*{message}"):
        LambadaReading(lambada_folder, passages=path).train(0, 0)


def test_a_folder_without_the_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="zenodo"):
        LambadaReading(tmp_path).validation  # noqa: B018


def test_options_out_of_range_are_quoted() -> None:
    with pytest.raises(ValueError, match="held_out must be at least 1, got 0"):
        LambadaReading("lambada", held_out=0)
    with pytest.raises(ValueError, match="words must be at least 1, got -1"):
        LambadaReading("lambada", words=-1)
