import tarfile
from pathlib import Path

import pytest

from graphut.experiments.tasks import Pair
from graphut.experiments.tasks.translation import Multi30k, TranslationTask
from graphut.subwords import Subwords
from tests.experiments.tasks.tiny_translation import ENGLISH, GERMAN, LINES, Numbers
from tests.helpers import refuses


def texts(task: TranslationTask, pairs: list[Pair]) -> list[tuple[str, str]]:
    write = task.target_vocabulary.write
    return [(write(source), write(target)) for source, target in pairs]


def test_translation_task_reads_pairs_with_subwords_of_both_languages() -> None:
    task = Numbers(subwords=300)
    assert texts(task, task.test) == [("ten nine", "zehn neun"), ("one", "eins")]
    assert task.source_vocabulary == Subwords.learn([*GERMAN, *ENGLISH], 300)


def test_translation_task_refuses_files_that_do_not_belong_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(LINES, "test.de", ["a"])
    refuses("test files do not match: 2 lines in en, 1 in de", Numbers().load, "test")


def test_translation_task_leaves_out_empty_and_long_training_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(LINES, "train.en", ["ten", " ", "eleven"])
    monkeypatch.setitem(LINES, "train.de", ["zehn", "elf", ""])
    assert len(Numbers(subwords=300).train(0, 0)) == 1
    assert Numbers(subwords=257, longest=1).train(0, 0) == []


def lines(path: Path) -> list[str]:
    return [" ".join(line.split()) for line in path.read_bytes().decode().split("\n")[:-1]]


def test_multi30k_has_every_pair_of_the_files(shared_data: Path, tmp_path: Path) -> None:
    with tarfile.open(shared_data / "multi30k" / "multi30k-task1-en-de.tar.xz") as members:
        # Python 3.11.3 and older have no filters.
        members.extraction_filter = getattr(tarfile, "data_filter", None)
        members.extractall(tmp_path)
    task = Multi30k(folder := tmp_path / "multi30k-task1")
    parts = {"train": task.train(0, 0), "val": task.validation, "test_2016_flickr": task.test}
    assert [*map(len, parts.values())] == [29_000, 1014, 1000]
    for name, pairs in parts.items():
        files = (folder / "raw" / f"{name}.{language}" for language in ("en", "de"))
        assert texts(task, pairs) == [*zip(*map(lines, files), strict=True)]
    assert task.source_vocabulary == task.target_vocabulary
    symbols = task.source_vocabulary.readable(range(len(task.vocabularies["source"])))
    assert len(symbols) == 8000 + 2 and {"▁man", "▁Mann", "▁bike", "▁Fahrrad"} <= {*symbols}
