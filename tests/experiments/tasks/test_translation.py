from collections import Counter
from html import unescape
from itertools import chain
from pathlib import Path

import pytest

from graphut.experiments.tasks import Pair
from graphut.experiments.tasks.subwords import Subwords
from graphut.experiments.tasks.translation import Multi30k, TranslationTask, Wmt14
from tests.experiments.tasks.tiny_wmt14 import TRAIN, write, write_corpora

PARTS = {"validation": "newstest2013", "test": "newstest2014-filtered"}


def texts(task: TranslationTask, pairs: list[Pair]) -> list[tuple[str, str]]:
    write = task.target_vocabulary.write
    return [(write(source), write(target)) for source, target in pairs]


@pytest.fixture
def full(tmp_path: Path) -> Path:
    return write_corpora(tmp_path)


def test_translation_task_reads_from_the_cache_what_was_parsed(
    full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHUT_CACHE", str(full / "cache"))
    first = Wmt14(full, subwords=300)
    assert first.test
    again = Wmt14(full, subwords=300, languages="de-en")
    monkeypatch.setattr(Subwords, "learn", None)  # not called again
    assert again.test == [(target, source) for source, target in first.test]
    assert again.source_vocabulary == first.source_vocabulary
    (full / "newstest2014.en").write_text("nine\none\n")
    monkeypatch.undo()
    assert texts(again, Wmt14(full, subwords=300).test)[0] == ("nine", "zehn neun")


@pytest.mark.parametrize(
    ("name", "english", "german", "message"),
    [
        ("newstest2014", ["a", "b"], ["a"], "test files .* have 2 in en and 1 in de lines"),
        (TRAIN[1], ["a"], ["a", "b"], "train files .* have 7 in en and 8 in de lines"),
        ("newstest2013", ["a", " "], ["a", "b"], "line 2 of the validation file in en is empty"),
        ("newstest2014", ["a"], [""], "line 1 of the test file in de is empty"),
    ],
)
def test_translation_task_files_that_do_not_belong_together(
    full: Path, name: str, english: list[str], german: list[str], message: str
) -> None:
    write(full, name, english, german)
    with pytest.raises(ValueError, match=message):
        Wmt14(full).validation  # noqa: B018


def test_translation_task_leaves_out_empty_and_long_training_pairs(full: Path) -> None:
    write(full, TRAIN[2], ["ten", " ", "eleven"], ["zehn", "elf", ""])
    assert len(Wmt14(full, subwords=300).train(0, 0)) == 10
    with pytest.raises(ValueError, match="all training pairs are longer than 1"):
        Wmt14(full, subwords=257, longest=1).train(0, 0)


def lines(path: Path) -> list[str]:
    return [" ".join(line.split()) for line in path.read_bytes().decode().split("\n")[:-1]]


def test_multi30k_has_every_pair_of_the_files(multi30k_folder: Path) -> None:
    task = Multi30k(multi30k_folder)
    parts = {"train": task.train(0, 0), "val": task.validation, "test_2016_flickr": task.test}
    assert [*map(len, parts.values())] == [29_000, 1014, 1000]
    for name, pairs in parts.items():
        files = (multi30k_folder / "raw" / f"{name}.{language}" for language in ("en", "de"))
        assert texts(task, pairs) == [*zip(*map(lines, files), strict=True)]
    assert task.source_vocabulary == task.target_vocabulary
    symbols = task.source_vocabulary.readable(range(len(task.vocabularies["source"])))
    assert len(symbols) == 8000 + 2 and {"▁man", "▁Mann", "▁bike", "▁Fahrrad"} <= {*symbols}


def test_multi30k_in_small_letters_and_tokens(multi30k_folder: Path, tmp_path: Path) -> None:
    task = Multi30k(multi30k_folder, text="tokenized", subwords=4000)
    files = (multi30k_folder / "tok" / f"test_2016_flickr.lc.norm.tok.{x}" for x in ("en", "de"))
    assert texts(task, task.test) == [*zip(*map(lines, files), strict=True)]
    task.target_vocabulary.save(tmp_path / "vocabulary.json")
    loaded = Subwords.load(tmp_path / "vocabulary.json")
    assert loaded.tokenized and loaded == task.target_vocabulary


@pytest.fixture(scope="module")
def small(wmt14_folder: Path) -> Wmt14:
    return Wmt14(wmt14_folder, corpus="small", subwords=2000)


@pytest.mark.parametrize(("part", "size"), [("validation", 3000), ("test", 2737)])
def test_wmt14_the_small_files_without_their_escapes(
    small: Wmt14, wmt14_folder: Path, part: str, size: int
) -> None:
    pairs = getattr(small, part)
    assert len(pairs) == size
    for language, side in zip(("en", "de"), zip(*texts(small, pairs), strict=True), strict=True):
        escaped = (wmt14_folder / f"{PARTS[part]}.{language}").read_text().split("\n")[:-1]
        assert [*side] == [" ".join(unescape(line).split()) for line in escaped]


def test_wmt14_long_training_pairs_are_left_out(small: Wmt14, wmt14_folder: Path) -> None:
    pairs = small.train(0, 0)
    assert max(len(side) for side in chain.from_iterable(pairs)) == small.longest
    assert len(pairs) < 10_000
    whole = Wmt14(wmt14_folder, corpus="small", subwords=2000, longest=1000)
    assert len(whole.train(0, 0)) == 10_000
    long = Counter(texts(whole, whole.train(0, 0))) - Counter(texts(small, pairs))
    read = small.source_vocabulary.read
    assert all(max(len(read(source)), len(read(target))) > 100 for source, target in long)


def test_wmt14_all_corpora_are_read_unchanged(full: Path) -> None:
    task = Wmt14(full, subwords=300)
    assert {pair[1] for pair in texts(task, task.train(0, 0))} >= {"eins", "sechs", "zehn"}
    assert texts(task, task.validation) == [("two one", "zwei eins"), ("A &amp; B", "A &amp; B")]
    assert texts(task, task.test) == [("ten nine", "zehn neun"), ("one", "eins")]
    write(full, "newstest2014", ["unheard", "unheard"], ["unerhört", "unerhört"])
    assert Wmt14(full, subwords=300).source_vocabulary == task.source_vocabulary


def test_wmt14_epochs_go_through_the_corpus_again_and_again(full: Path) -> None:
    task = Wmt14(full, subwords=300, epoch_size=4)
    epochs = [task.train(7, epoch) for epoch in range(5)]
    assert [len(epoch) for epoch in epochs] == [4] * 5
    seen = texts(task, list(chain.from_iterable(epochs)))
    first, second = seen[:10], seen[10:]
    assert len(set(first)) == 10 and set(first) == set(second) and first != second
    assert task.train(7, 3) == epochs[3]
    assert texts(task, task.train(8, 0)) != first[:4]
    whole = Wmt14(full, subwords=300)
    for epoch in range(3):
        assert len(set(texts(whole, whole.train(0, epoch)))) == len(whole.train(0, epoch)) == 10


def test_wmt14_unchecked_files_have_no_checksum(tmp_path: Path) -> None:
    assert Wmt14(tmp_path, corpus="small").unchecked_files == {}
    unchecked = Wmt14(tmp_path).unchecked_files
    assert len(unchecked) == 10
    assert unchecked["data/newstest2014.de"] == tmp_path / "newstest2014.de"
