from pathlib import Path
from typing import Any

import pytest

from graphut.experiments.tasks.lambada import Lambada, LambadaReading
from graphut.experiments.tasks.vocabulary import UNKNOWN


def test_lambada_without_novels_it_trains_on_development_passages(lambada_folder: Path) -> None:
    task = Lambada(lambada_folder, held_out=500)
    train, validation = task.train(0, 0), task.validation
    assert task.train(1, 1) is train
    assert (len(train), len(validation), len(task.test)) == (4869 - 500, 500, 5153)
    assert {tuple(text.tokens) for text in train}.isdisjoint(tuple(t.tokens) for t in validation)
    lines = (lambada_folder / "lambada_development_plain_text.txt").read_text().splitlines()
    known = task.vocabulary
    written = {known.write(text.tokens) for text in train + validation}
    assert written == {known.write(known.read(line)) for line in lines}

    lines = (lambada_folder / "lambada_test_plain_text.txt").read_text().splitlines()
    assert [text.tokens for text in task.test] == [*map(known.read, lines)]
    assert "statuette" in lines[0] and "statuette" not in known
    assert known.write(task.test[0].tokens[-3:]) == "care about signs"
    assert {text.context for text in task.test} == {0}


def test_lambada_with_novels_it_trains_on_windows_of_them(
    lambada_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "one.txt").write_text("once upon a time " * 30)
    (tmp_path / "two.txt").write_text("there was a cat .\n" * 10)
    (tmp_path / "cover.jpg").write_bytes(b"\xff\xd8")
    (tmp_path / "three.txt").write_text("signs signs")
    task = Lambada(lambada_folder, tmp_path, window=16, epoch_size=50)
    whole = "once upon a time " * 30 + "signs signs " + "there was a cat . " * 10
    assert set(task.vocabulary.symbols) == {*whole.split(), "<unk>"}
    assert task.vocabulary.symbols[1] == "a"
    texts = task.train(0, 0)
    assert len(texts) == 50 and texts != task.train(0, 1)
    for text in texts:
        written = task.vocabulary.write(text.tokens)
        assert len(text.tokens) == 16 and written in whole
    assert len(task.validation) == 4869
    one = Lambada(lambada_folder, tmp_path / "two.txt", words=3)
    assert len(one.vocabulary) == 2 + 1 + 3


def test_lambada_reads_from_the_cache_what_was_parsed(
    lambada_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHUT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "novel.txt").write_text("signs and wonders " * 20)
    options: dict[str, Any] = {"novels": tmp_path / "novel.txt", "window": 8, "epoch_size": 3}
    first = Lambada(lambada_folder, **options)
    drawn = first.train(0, 0)
    monkeypatch.setattr("graphut.experiments.tasks.lambada.Words.learn", None)  # not called again
    again = Lambada(lambada_folder, **options)
    assert (again.vocabulary, again.train(0, 0)) == (first.vocabulary, drawn)
    monkeypatch.undo()
    (tmp_path / "novel.txt").write_text("signs of life " * 20)
    assert "life" in Lambada(lambada_folder, **options).vocabulary
    (tmp_path / "novel.txt").write_text("")
    with pytest.raises(ValueError, match="holds no words: expected a text"):
        Lambada(lambada_folder, **options).train(0, 0)
    (tmp_path / "novel.txt").write_text("Signs Signs")
    with pytest.raises(ValueError, match=r"no last word .* tokenised and in lower case"):
        Lambada(lambada_folder, **options).validation  # noqa: B018


def test_lambada_reading_has_every_passage_of_the_files(lambada_folder: Path) -> None:
    task = LambadaReading(lambada_folder)
    lines = (lambada_folder / "lambada_test_plain_text.txt").read_text().splitlines()
    written = [task.vocabulary.write([*p.context, p.answer]) for p in task.test]
    assert written == [" ".join(line.split()) for line in lines]
    assert UNKNOWN not in " ".join(written).split()
    assert sum(p.answer in p.context for p in task.test) == 4261


def test_lambada_reading_trains_on_development_passages_where_there_is_nothing_else(
    lambada_folder: Path,
) -> None:
    task = LambadaReading(lambada_folder, held_out=100)
    train, validation = task.train(0, 0), task.validation
    assert len(validation) == 100 and task.train(1, 2) == train
    assert all(p.answer in p.context for p in train)
    drawn = {(*p.context, p.answer) for p in train + validation}
    lines = (lambada_folder / "lambada_development_plain_text.txt").read_text().splitlines()
    passages = {tuple(task.vocabulary.read(line)) for line in lines}
    assert drawn < passages and all(p[-1] not in p[:-1] for p in passages - drawn)
    assert not {tuple(p.context) for p in train} & {tuple(p.context) for p in validation}
