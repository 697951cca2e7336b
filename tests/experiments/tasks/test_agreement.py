from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from graphut.experiments.tasks import Text
from graphut.experiments.tasks.agreement import Agreement, Prefix

NOUNS = ["keys", "key", "dogs", "dog"]
LINES = [f"{'VBP' if noun.endswith('s') else 'VBZ'}\tthe {noun}" for noun in NOUNS]


@pytest.fixture(scope="module")
def small(agreement_folder: Path) -> Agreement:
    return Agreement(agreement_folder, split="small")


@pytest.fixture
def published(tmp_path: Path, agreement_folder: Path) -> Path:
    """A folder with all files, those that are not here made up."""
    for path in agreement_folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "numpred.train").write_text("\n".join([*LINES * 2, "VBP\tthe unicorns"]) + "\n")
    (tmp_path / "numpred.test.0").write_text("VBZ\tthe unicorn\n")
    return tmp_path


def written(task: Agreement, texts: list[Text]) -> list[str]:
    return [task.vocabulary.write(text.tokens) for text in texts]


def test_agreement_the_small_split(small: Agreement, agreement_folder: Path) -> None:
    train, validation = small.train(0, 0), small.validation
    assert small.train(1, 1) is train
    lines = (agreement_folder / "numpred.val").read_text().splitlines()
    tested = {
        line.partition("\t")[2]
        for attractors in range(1, 6)
        for line in (agreement_folder / f"numpred.test.{attractors}").read_text().splitlines()
    }
    kept = [line for line in lines if line.partition("\t")[2] not in tested]
    assert len(train) + len(validation) == len(kept) > 15_500
    assert 1500 <= len(validation) < 1700
    groups = Counter(text.group for text in small.test)
    assert list(groups.values()) == [52_599, 9380, 2051, 561, 159]
    assert list(groups) == [f"{n} attractors" for n in range(1, 6)]


def test_agreement_has_no_text_in_two_parts(small: Agreement) -> None:
    train, validation = small._parts
    parts = [{prefix.words for prefix in part} for part in (train, validation)]
    parts.append({prefix.words for part in small._tests.values() for prefix in part})
    assert sum(map(len, parts)) == len(set.union(*parts))


def test_agreement_texts_are_the_lines_with_the_verb_at_their_end(
    small: Agreement, agreement_folder: Path
) -> None:
    lines = (agreement_folder / "numpred.test.5").read_text().splitlines()
    texts = [text for text in small.test if text.group == "5 attractors"]
    for line, text in zip(lines, texts, strict=True):
        number, _, words = line.partition("\t")
        assert small.vocabulary.encode([number]) == text.tokens[-1:]
        known = [word if word in small.vocabulary else "<unk>" for word in words.split()]
        assert small.vocabulary.write(text.tokens) == " ".join([*known, number])


def test_agreement_words_that_training_has_once_are_unknown(small: Agreement) -> None:
    count = Counter(word for prefix in small._parts[0] for word in (*prefix.words, prefix.number))
    twice = {word for word in count if count[word] >= 2}
    assert set(small.vocabulary.symbols) == twice | {"<unk>"}


def test_agreement_sentences(agreement_folder: Path, sentences_folder: Path) -> None:
    task = Agreement(agreement_folder, split="small", sentences=sentences_folder)
    rows = (sentences_folder / "wiki-test.txt").read_text().splitlines()[1:]
    seen = {
        line.partition("\t")[2]
        for line in (agreement_folder / "numpred.val").read_text().splitlines()
    }
    prefixes = [" ".join(row.split()[: int(row.split("\t")[2])]) for row in rows]
    left_out = [p for p in prefixes if len(p.split()) >= 6 and p in seen]
    assert len(left_out) == 19
    assert list(task.test_sets) == ["test", "sentences"]
    assert len(task.test_sets["sentences"]) == 4000 - 19
    first = rows[0].split("\t")
    assert written(task, task.test_sets["sentences"][:1]) == [
        f"{' '.join(first[0].split()[: int(first[2])])} {first[3]}"
    ]


def test_agreement_the_published_split(published: Path) -> None:
    task = Agreement(published)
    assert written(task, task.train(0, 0)) == [
        f"{words} {number}" for number, words in (line.split("\t") for line in LINES * 2)
    ] + ["the <unk> VBP"]
    assert len(task.validation) > 15_500
    assert written(task, task.test[:1]) == ["the <unk> VBZ"]
    assert task.test[0].group == "0 attractors"
    assert len(task.test) == 1 + 52_599 + 9380 + 2051 + 561 + 159


def test_agreement_sentences_that_are_trained_on_are_left_out(
    published: Path, sentences_folder: Path
) -> None:
    rows = (sentences_folder / "wiki-test.txt").read_text().splitlines()[1:]
    sentence, _, place, number, *_ = next(r for r in rows if int(r.split("\t")[2]) > 8).split("\t")
    words = " ".join(sentence.split()[: int(place)])
    before = Agreement(published, sentences=sentences_folder).test_sets["sentences"]
    with (published / "numpred.train").open("a") as file:
        file.write(f"{number}\t{words}\n")
    after = Agreement(published, sentences=sentences_folder).test_sets["sentences"]
    assert len(after) == len(before) - 1 == 4000 - 19 - 1


def test_agreement_reads_from_the_cache_what_was_parsed(
    published: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHUT_CACHE", str(tmp_path_factory.mktemp("cache")))
    first = Agreement(published)
    assert first.validation
    monkeypatch.setattr(Prefix, "parse", None)  # not called again
    again = Agreement(published)
    assert (again.vocabulary, again.train(0, 0)) == (first.vocabulary, first.train(0, 0))
    assert (again.validation, again.test) == (first.validation, first.test)
    (published / "numpred.train").write_text("VBP\tthe keys\nVBP\tthe keys\n")
    monkeypatch.undo()
    assert len(Agreement(published).train(0, 0)) == 2


def test_agreement_files_that_are_not_there_or_damaged(
    agreement_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError, match=r"no .*numpred.test.0; .*rnn_agr_simple.tar.gz"):
        Agreement(agreement_folder).validation  # noqa: B018
    (tmp_path / "numpred.test.1").write_text("VBZ\tthe key\n")
    with pytest.raises(ValueError, match=r"numpred.test.1 is damaged"):
        Agreement(tmp_path, split="small").validation  # noqa: B018


def test_agreement_refuses_too_many_to_validate_on(agreement_folder: Path) -> None:
    with pytest.raises(ValueError, match=r"held_out must be less than 15\d{3}, got 20000"):
        Agreement(agreement_folder, split="small", held_out=20_000).validation  # noqa: B018


@pytest.mark.parametrize("line", ["VBX\tthe key", "VBZ the key", "VBZ\t ", ""])
def test_prefix_parse_quotes_a_wrong_line(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"got {line!r}")):
        Prefix.parse(line)


def test_agreement_unchecked_files_have_no_checksum(tmp_path: Path) -> None:
    assert Agreement(tmp_path, split="small").unchecked_files == {}
    names = ["numpred.test.0", "numpred.train"]
    found = Agreement(tmp_path).unchecked_files
    assert dict(found) == {f"data/{name}": tmp_path / name for name in names}
