from __future__ import annotations

from pathlib import Path

import pytest

from graphut.experiments.tasks import Multi30k, Pair

FILES = {"train": "train", "validation": "val", "test": "test_2016_flickr"}


def lines(folder: Path, part: str, language: str) -> list[str]:
    text = (folder / "raw" / f"{FILES[part]}.{language}").read_bytes().decode()
    return [" ".join(line.split()) for line in text.split("\n")[:-1]]


def texts(task: Multi30k, pairs: list[Pair]) -> list[tuple[str, str]]:
    write = task.target_vocabulary.write
    return [(write(source), write(target)) for source, target in pairs]


@pytest.fixture(scope="module")
def task(multi30k_folder: Path) -> Multi30k:
    return Multi30k(multi30k_folder)


@pytest.mark.data
@pytest.mark.parametrize(("part", "size"), [("train", 29000), ("validation", 1014), ("test", 1000)])
def test_every_pair_of_the_files_is_there(
    task: Multi30k, multi30k_folder: Path, part: str, size: int
) -> None:
    pairs = task.train(0, 0) if part == "train" else getattr(task, part)
    assert len(pairs) == size
    expected = zip(*(lines(multi30k_folder, part, x) for x in ("en", "de")), strict=True)
    assert texts(task, pairs) == list(expected)


@pytest.mark.data
def test_the_vocabulary(task: Multi30k) -> None:
    assert task.source_vocabulary == task.target_vocabulary
    assert len(task.vocabularies["source"]) == 8000 + 2
    symbols = set(task.source_vocabulary.readable(range(8002)))
    assert {"▁man", "▁Mann", "▁Männer", "▁bike", "▁Fahrrad"} <= symbols


@pytest.mark.data
def test_the_other_direction(task: Multi30k, multi30k_folder: Path) -> None:
    back = Multi30k(multi30k_folder, languages="de-en")
    assert back.target_vocabulary == task.target_vocabulary
    assert back.test == [(target, source) for source, target in task.test]


@pytest.mark.data
def test_a_damaged_file(multi30k_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    whole = (multi30k_folder / "raw" / "train.en").read_bytes()
    (tmp_path / "raw" / "train.en").write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=r"raw/train\.en is damaged"):
        Multi30k(tmp_path).validation  # noqa: B018


def test_a_folder_without_the_files(tmp_path: Path) -> None:
    wanted = r"no .*raw/train\.en; missing in the folder: raw/train\.en, .*multi30k/dataset"
    with pytest.raises(FileNotFoundError, match=wanted):
        Multi30k(tmp_path).validation  # noqa: B018
