from itertools import chain
from pathlib import Path

import pytest

from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.base import PARTS
from graphut.experiments.tasks.pairs import Pairs, read_pairs
from graphut.subwords import Subwords
from graphut.vocabulary import Characters
from tests.helpers import refuses

Texts = list[tuple[str, str]]


def write(path: Path, pairs: Texts) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return path


def texts(task: Pairs, part: str) -> Texts:
    pairs = task.train(0, 0) if part == "train" else getattr(task, part)
    return [
        (task.source_vocabulary.write(source), task.target_vocabulary.write(target))
        for source, target in pairs
    ]


@pytest.fixture
def numbers() -> Texts:
    """Two hundred numbers, digit by digit, and the same in letters."""
    digits = [" ".join(str(number)) for number in range(1000, 1200)]
    return [(text, text.translate(str.maketrans("0123456789", "abcdefghij"))) for text in digits]


def test_pairs_every_pair_is_in_exactly_one_part(tmp_path: Path, numbers: Texts) -> None:
    task = Pairs(write(tmp_path / "pairs.tsv", numbers))
    parts = [texts(task, part) for part in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [162, 20, 18]
    assert task.description.startswith("read 162/20/18 pairs for training/validation/test; warning")
    few = Pairs(tmp_path / "pairs.tsv", held_out=3)
    assert (len(few.validation), len(few.test)) == (3, 3)
    assert sorted(chain.from_iterable(parts)) == sorted(numbers)
    reverse = Pairs(write(tmp_path / "reverse.tsv", numbers[::-1]))  # the split is by the sources
    for part in ("validation", "test"):
        assert sorted(texts(task, part)) == sorted(texts(reverse, part))
    twice = numbers + [(source, target + " x") for source, target in numbers]
    both = Pairs(write(tmp_path / "twice.tsv", twice))  # equal sources stay together
    assert sum(len({s for s, _ in texts(both, part)}) for part in PARTS) == len(numbers)


def test_pairs_separate_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = [("a", "x"), ("b", "y")], [("a b", "x y")], [("b a", "")]
    task = Pairs(*(write(Path(f"{index}.tsv"), pairs) for index, pairs in enumerate(files)))
    assert task.test_data == str(tmp_path / "2.tsv")  # a run is resumed from any folder
    assert (task.source_vocabulary, task.target_vocabulary) == (Vocabulary("ab"), Vocabulary("xy"))
    assert task.train(0, 0) == task.train(5, 6) == [([2], [2]), ([3], [3])]
    assert (task.validation, task.test) == ([([2, 3], [2, 3])], [([3, 2], [])])


def test_read_pairs_takes_byte_order_mark_windows_lines_and_empty_lines(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes("\ufeffa\x1cb\tx\r\n\r\n \nb\ty \r\n".encode())
    assert read_pairs(path, Vocabulary("ab"), Vocabulary("xy")) == [
        ([2, 3], [2]),
        ([3], [3]),
    ]


def test_read_pairs_does_not_spell_an_unknown_symbol(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("9 + 8\t17\n")
    digits = Vocabulary([*"0123456789", "10", "+"])
    refuses("pairs.tsv:1: unknown symbol '17'", read_pairs, path, digits, digits)
    refuses("unknown symbol '17'", read_pairs, path, digits, Vocabulary("0123456789"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a b", r"pairs\.tsv:2: expected two columns.* got 1 in 'a b'"),
        ("a\tx\ty", r"pairs\.tsv:2: expected two columns.* got 3"),
        (" \tx", r"pairs\.tsv:2: the source is empty"),
        ("a q\tx", r"pairs\.tsv:2: unknown symbol 'q'; known are: a b"),
        ("a\tq", r"pairs\.tsv:2: unknown symbol 'q'; known are: x"),
        ("<bos>\tx", r"pairs\.tsv:2: unknown symbol '<bos>'"),
        (None, r"pairs\.tsv holds no pairs"),
    ],
)
def test_read_pairs_names_a_wrong_line(tmp_path: Path, line: str | None, message: str) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"a\tx\n{line}\n" if line else "")
    refuses(message, read_pairs, path, Vocabulary("ab"), Vocabulary("x"))


def test_pairs_a_file_that_cannot_be_split(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", [("a", "x"), ("b", "y"), ("c", "x")])
    refuses(r"no pair of .*pairs\.tsv can be .* --subwords N$", getattr, Pairs(path), "validation")
    assert [len(Pairs(path, characters=True).load(part)) for part in PARTS] == [1, 1, 1]
    for sources in ("aa", "ab"):
        write(path, [(source, "x") for source in sources])
        with pytest.raises(ValueError, match=r"pairs\.tsv has fewer than three distinct sources"):
            Pairs(path, subwords=300).validation  # noqa: B018
    with pytest.raises(ValueError, match="characters must be False with subwords; got True"):
        Pairs(path, characters=True, subwords=300)
    refuses("subwords must be at least 257; got 256", Pairs, path, subwords=256)


def test_pairs_of_subwords(tmp_path: Path) -> None:
    sentences = [f"The {a}  {b} runs home." for a in ["red", "old", "big"] for b in ("fox", "ox")]
    path = write(tmp_path / "pairs.tsv", [(text, text.upper()) for text in sentences])
    task = Pairs(path, subwords=270)
    vocabulary = task.source_vocabulary
    assert isinstance(vocabulary, Subwords) and task.target_vocabulary is vocabulary
    assert 258 < len(vocabulary) <= 272
    parts = [texts(task, part) for part in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [4, 1, 1]  # though rare words are held out
    plain = [" ".join(text.split()) for text in sentences]
    assert sorted(chain.from_iterable(parts)) == sorted((text, text.upper()) for text in plain)
    assert vocabulary == Subwords.learn(chain.from_iterable(parts[0]), 270)
    assert read_pairs(path, vocabulary, vocabulary) == [
        (vocabulary.read(text), vocabulary.read(text.upper())) for text in plain
    ]


def test_pairs_of_characters(tmp_path: Path) -> None:
    words = ["to be", "or not", "not to", "be to"]
    path = write(tmp_path / "pairs.tsv", [(word, word[::-1].upper()) for word in words])
    task = Pairs(path, characters=True)
    assert task.source_vocabulary == Characters(" benort")
    assert task.target_vocabulary == Characters(" BENORT")
    pairs = task.train(0, 0) + task.validation + task.test
    read, written = task.source_vocabulary.write, task.target_vocabulary.write
    assert sorted(read(source) for source, _ in pairs) == sorted(words)
    assert all(written(target) == read(source)[::-1].upper() for source, target in pairs)
    assert sorted(read_pairs(path, *task.vocabularies.values())) == sorted(pairs)
