from __future__ import annotations

from collections import Counter
from html import unescape
from itertools import chain
from pathlib import Path

import pytest

from graphut.experiments.tasks import Pair, Wmt14
from tests.experiments.tasks.tiny_wmt14 import write, write_corpora

PARTS = {"validation": "newstest2013", "test": "newstest2014-filtered"}


def texts(task: Wmt14, pairs: list[Pair]) -> list[tuple[str, str]]:
    write = task.target_vocabulary.write
    return [(write(source), write(target)) for source, target in pairs]


@pytest.fixture(scope="module")
def small(wmt14_folder: Path) -> Wmt14:
    return Wmt14(wmt14_folder, corpus="small", subwords=2000)


@pytest.mark.data
@pytest.mark.parametrize(("part", "size"), [("validation", 3000), ("test", 2737)])
def test_the_small_files_without_their_escapes(
    small: Wmt14, wmt14_folder: Path, part: str, size: int
) -> None:
    pairs = getattr(small, part)
    assert len(pairs) == size
    for side, language in enumerate(("en", "de")):
        lines = (wmt14_folder / f"{PARTS[part]}.{language}").read_text().split("\n")[:-1]
        expected = [" ".join(unescape(line).split()) for line in lines]
        assert [pair[side] for pair in texts(small, pairs)] == expected


@pytest.mark.data
def test_long_training_pairs_are_left_out(small: Wmt14, wmt14_folder: Path) -> None:
    pairs = small.train(0, 0)
    assert max(len(side) for side in chain.from_iterable(pairs)) == small.longest
    assert len(pairs) < 10_000
    whole = Wmt14(wmt14_folder, corpus="small", subwords=2000, longest=1000)
    assert len(whole.train(0, 0)) == 10_000
    long = Counter(texts(whole, whole.train(0, 0))) - Counter(texts(small, pairs))
    read = small.source_vocabulary.read
    assert all(max(len(read(source)), len(read(target))) > 100 for source, target in long)


@pytest.fixture
def full(tmp_path: Path) -> Path:
    return write_corpora(tmp_path)


def test_all_corpora_are_read_as_they_are(full: Path) -> None:
    task = Wmt14(full, subwords=300)
    assert {pair[1] for pair in texts(task, task.train(0, 0))} >= {"eins", "sechs", "zehn"}
    assert texts(task, task.validation) == [("two one", "zwei eins"), ("A &amp; B", "A &amp; B")]
    assert texts(task, task.test) == [("ten nine", "zehn neun"), ("one", "eins")]


def test_subwords_are_learned_from_training_alone(full: Path) -> None:
    before = Wmt14(full, subwords=300).source_vocabulary
    write(full, "newstest2014", ["unheard", "unheard"], ["unerhört", "unerhört"])
    assert Wmt14(full, subwords=300).source_vocabulary == before


def test_epochs_go_through_the_corpus_again_and_again(full: Path) -> None:
    task = Wmt14(full, subwords=300, epoch_size=4)
    epochs = [task.train(7, epoch) for epoch in range(5)]
    assert [len(epoch) for epoch in epochs] == [4] * 5
    seen = texts(task, list(chain.from_iterable(epochs)))
    first, second = seen[:10], seen[10:]
    assert len(set(first)) == 10 and set(first) == set(second) and first != second
    assert task.train(7, 3) == epochs[3]
    assert texts(task, task.train(8, 0)) != first[:4]


def test_an_epoch_is_never_larger_than_the_corpus(full: Path) -> None:
    task = Wmt14(full, subwords=300)
    for epoch in range(3):
        assert len(set(texts(task, task.train(0, epoch)))) == len(task.train(0, epoch)) == 10


@pytest.mark.parametrize("corpus", ["full", "small"])
def test_a_folder_without_the_files(tmp_path: Path, corpus: str) -> None:
    wanted = {"full": r"europarl-v7\.de-en\.de and .*statmt", "small": r"train10k\.de, .*OpenNMT"}
    with pytest.raises(FileNotFoundError, match=wanted[corpus]):
        Wmt14(tmp_path, corpus=corpus).validation  # type: ignore[arg-type]  # noqa: B018


def test_a_file_that_is_no_text(full: Path) -> None:
    (full / "newstest2013.de").write_bytes(b"\xff\n")
    with pytest.raises(ValueError, match=r"newstest2013\.de is not a text file in UTF-8"):
        Wmt14(full).validation  # noqa: B018


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"corpus": "tiny"}, "corpus must be one of full, small; got 'tiny'"),
        ({"epoch_size": 0}, "epoch_size must be at least 1, got 0"),
        ({"languages": "en-fr"}, "languages must be one of en-de, de-en; got 'en-fr'"),
        ({"subwords": 256}, "subwords must be at least 257, got 256"),
        ({"longest": 0}, "longest must be at least 1, got 0"),
    ],
)
def test_options_out_of_range_are_quoted(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Wmt14("wmt14", **options)  # type: ignore[arg-type]


def test_a_relative_folder_is_kept_as_an_absolute_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Wmt14("wmt14").data == str(tmp_path / "wmt14")


def test_only_files_without_a_checksum_are_to_be_remembered(tmp_path: Path) -> None:
    assert Wmt14(tmp_path, corpus="small").unchecked_files == {}
    found = Wmt14(tmp_path).unchecked_files
    assert len(found) == 10
    assert found["data/newstest2014.de"] == tmp_path / "newstest2014.de"
