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
    """A folder with all files; the unavailable ones are made up."""
    for path in agreement_folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "numpred.train").write_text("\n".join([*LINES * 2, "VBP\tthe unicorns"]) + "\n")
    (tmp_path / "numpred.test.0").write_text("VBZ\tthe unicorn\n")
    return tmp_path


def written(task: Agreement, texts: list[Text]) -> list[str]:
    return [task.vocabulary.write(text.tokens) for text in texts]


def words_of(path: Path) -> list[str]:
    return [line.partition("\t")[2] for line in path.read_text().splitlines()]


def test_agreement_small_split_has_no_text_in_two_parts(
    small: Agreement, agreement_folder: Path
) -> None:
    tested = {w for n in range(1, 6) for w in words_of(agreement_folder / f"numpred.test.{n}")}
    kept = [words for words in words_of(agreement_folder / "numpred.val") if words not in tested]
    train, validation = small.train(0, 0), small.validation
    assert len(train) + len(validation) == len(kept) > 15_500
    assert 1500 <= len(validation) < 1700
    sets = small._prefixes()
    words = {name: {prefix.words for prefix in prefixes} for name, prefixes in sets.items()}
    assert words["train"].isdisjoint(words["validation"])
    groups = Counter(text.group for text in small.test)
    assert list(groups) == [f"{n} attractors" for n in range(1, 6)]
    assert list(groups.values()) == [52_599, 9380, 2051, 561, 159]
    count = Counter(word for prefix in sets["train"] for word in (*prefix.words, prefix.number))
    frequent = {word for word in count if count[word] >= 2}
    assert set(small.vocabulary.symbols) == frequent | {"<unk>"}


def test_agreement_texts_are_the_lines_with_the_verb_at_their_end(
    small: Agreement, agreement_folder: Path
) -> None:
    lines = (agreement_folder / "numpred.test.5").read_text().splitlines()
    texts = [text for text in small.test if text.group == "5 attractors"]
    for line, text in zip(lines, texts, strict=True):
        number, *words = line.split()
        assert small.vocabulary.encode([number]) == text.tokens[-1:]
        expected = [word if word in small.vocabulary else "<unk>" for word in words]
        assert small.vocabulary.write(text.tokens) == " ".join([*expected, number])


def test_agreement_published_split(published: Path) -> None:
    task = Agreement(published)
    assert written(task, task.train(0, 0)) == [
        f"{words} {number}" for number, words in (line.split("\t") for line in LINES * 2)
    ] + ["the <unk> VBP"]
    assert len(task.validation) > 15_500
    assert written(task, task.test[:1]) == ["the <unk> VBZ"]
    assert task.test[0].group == "0 attractors"
    assert len(task.test) == 1 + 52_599 + 9380 + 2051 + 561 + 159


def test_agreement_sentences_exclude_training_and_validation(
    published: Path, sentences_folder: Path
) -> None:
    rows = (sentences_folder / "wiki-test.txt").read_text().splitlines()[1:]
    prefixes = [" ".join(row.split()[: int(row.split("\t")[2])]) for row in rows]
    seen = {*words_of(published / "numpred.val")}
    assert len([p for p in prefixes if len(p.split()) >= 6 and p in seen]) == 19
    before = Agreement(published, sentences=sentences_folder)
    assert list(before.test_sets) == ["test", "sentences"]
    assert len(before.test_sets["sentences"]) == 4000 - 19
    row = next(r for r in rows if int(r.split("\t")[2]) > 8).split("\t")
    with (published / "numpred.train").open("a") as file:
        file.write(f"{row[3]}\t{' '.join(row[0].split()[: int(row[2])])}\n")
    after = Agreement(published, sentences=sentences_folder).test_sets["sentences"]
    assert len(after) == 4000 - 19 - 1


def test_agreement_reads_from_the_cache_unless_a_file_has_changed(
    published: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHUT_CACHE", str(tmp_path_factory.mktemp("cache")))
    first = Agreement(published)
    assert first.validation
    monkeypatch.setattr(Prefix, "parse", None)
    again = Agreement(published)
    assert (again.vocabulary, again.train(0, 0)) == (first.vocabulary, first.train(0, 0))
    assert (again.validation, again.test) == (first.validation, first.test)
    (published / "numpred.train").write_text("VBP\tthe keys\nVBP\tthe keys\n")
    monkeypatch.undo()
    assert len(Agreement(published).train(0, 0)) == 2


@pytest.mark.parametrize("line", ["VBX\tthe key", "VBZ the key", "VBZ\t ", ""])
def test_prefix_parse_quotes_a_wrong_line(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"got {line!r}")):
        Prefix.parse(line)


def test_agreement_unchecked_files_have_no_checksum(tmp_path: Path) -> None:
    assert Agreement(tmp_path, split="small").unchecked_files == {}
    names = ["numpred.test.0", "numpred.train"]
    unchecked = Agreement(tmp_path).unchecked_files
    assert unchecked == {f"data/{name}": tmp_path / name for name in names}
