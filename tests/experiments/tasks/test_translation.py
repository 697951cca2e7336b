from __future__ import annotations

from pathlib import Path

import pytest

from graphut.experiments.tasks import Pair, Wmt14
from tests.experiments.tasks.tiny_wmt14 import TRAIN, write, write_corpora


def texts(task: Wmt14, pairs: list[Pair]) -> list[tuple[str, str]]:
    write = task.target_vocabulary.write
    return [(write(source), write(target)) for source, target in pairs]


@pytest.fixture
def full(tmp_path: Path) -> Path:
    return write_corpora(tmp_path)


def test_pairs_with_an_empty_sentence_are_left_out(full: Path) -> None:
    write(full, TRAIN[2], ["ten", " ", "eleven"], ["zehn", "elf", ""])
    assert len(Wmt14(full, subwords=300).train(0, 0)) == 10


def test_what_is_kept_is_what_was_read(
    full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHUT_CACHE", str(tmp_path / "cache"))
    first = Wmt14(full, subwords=300)
    assert first.test
    again = Wmt14(full, subwords=300, languages="de-en")
    monkeypatch.setattr(
        "graphut.experiments.tasks.translation.Subwords.learn", None
    )  # not called again
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
def test_files_that_do_not_belong_together(
    full: Path, name: str, english: list[str], german: list[str], message: str
) -> None:
    write(full, name, english, german)
    with pytest.raises(ValueError, match=message):
        Wmt14(full).validation  # noqa: B018


def test_every_training_pair_is_too_long(full: Path) -> None:
    with pytest.raises(ValueError, match="every training pair is longer than longest, 1"):
        Wmt14(full, subwords=257, longest=1).train(0, 0)
