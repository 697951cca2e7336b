from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

from graphut.experiments.tasks import Question
from graphut.experiments.tasks.babi import Babi, parse_tasks
from graphut.experiments.tasks.files import published_checksums

# Questions of training, validation and test, as counted with grep.
SIZES_1K = {1: (900, 100, 1000), 17: (904, 96, 1000), 18: (905, 95, 1000), 19: (900, 100, 1000)}


def text_of(task: Babi, question: Question) -> tuple[list[str], str, str]:
    return (
        [task.vocabulary.write(fact) for fact in question.facts],
        task.vocabulary.write(question.question),
        task.answers.symbols[question.answer],
    )


def plain(folder: Path, name: str) -> list[tuple[list[str], str, str, list[int]]]:
    """The questions of a file, by cutting its lines apart."""
    found, facts = [], dict[int, str]()
    for line in (folder / name).read_text().splitlines():
        number, _, rest = line.lower().partition(" ")
        if number == "1":
            facts = {}
        if "\t" in rest:
            asked, answer, supporting = rest.split("\t")
            places = [list(facts).index(int(one)) for one in supporting.split()]
            question = asked.replace("?", " ?")
            found.append((list(facts.values()), " ".join(question.split()), answer, places))
        else:
            facts[int(number)] = rest.removesuffix(".")
    return found


@pytest.mark.parametrize("number", [1, 3, 5, 8, 19, 20])
def test_babi_has_every_question_of_the_files(number: int, babi_folder: Path) -> None:
    task = Babi(babi_folder, tasks=str(number))
    for part, questions in (
        ("train", task.train(0, 0)),
        ("valid", task.validation),
        ("test", task.test),
    ):
        expected = plain(babi_folder, f"en-valid/qa{number}_{part}.txt")
        assert [text_of(task, q) for q in questions] == [each[:3] for each in expected]
        assert [list(q.supporting) for q in questions] == [each[3] for each in expected]


@pytest.mark.parametrize("number", SIZES_1K)
def test_babi_sizes(number: int, babi_folder: Path) -> None:
    task = Babi(babi_folder, tasks=str(number))
    parts = (task.train(0, 0), task.validation, task.test)
    assert tuple(map(len, parts)) == SIZES_1K[number]
    assert task.train(3, 5) == task.train(0, 0)


def test_babi_several_tasks_are_learned_together_and_reported_apart(babi_folder: Path) -> None:
    task = Babi(babi_folder, tasks="6,1")
    alone = [Babi(babi_folder, tasks=number) for number in "16"]
    assert list(task.test_sets) == ["test", "qa1", "qa6"]
    for own in alone:
        [group] = own.groups
        theirs = task.test_sets[group]
        assert [text_of(task, q) for q in theirs] == [text_of(own, q) for q in own.test]
        assert {q.group for q in theirs} == {group}
        assert list(own.test_sets) == ["test"]
    assert len(task.train(0, 0)) == 1800 and len(task.test) == 2000
    assert set(task.answers.symbols) == {s for own in alone for s in own.answers.symbols}


def test_babi_nothing_of_the_longest_story_is_cut(babi_folder: Path) -> None:
    assert max(len(question.facts) for question in Babi(babi_folder, tasks="3").test) == 228


def test_babi_the_first_facts_can_be_left_out(babi_folder: Path) -> None:
    whole, short = Babi(babi_folder, tasks="2"), Babi(babi_folder, tasks="2", longest_story=5)
    for before, after in zip(whole.test, short.test, strict=True):
        gone = max(len(before.facts) - 5, 0)
        kept = [whole.vocabulary.write(fact) for fact in before.facts[gone:]]
        assert [short.vocabulary.write(fact) for fact in after.facts] == kept
        assert [p + gone for p in after.supporting] == [p for p in before.supporting if p >= gone]


def test_babi_ten_thousand(babi_10k_folder: Path) -> None:
    task = Babi(babi_10k_folder, tasks="1", size="10k")
    assert (len(task.train(0, 0)), len(task.validation), len(task.test)) == (9000, 1000, 1000)
    with pytest.raises(FileNotFoundError, match=r"there is no .*en-valid-10k/qa3_train\.txt"):
        Babi(babi_10k_folder, tasks="3", size="10k").train(0, 0)


def test_babi_train_and_validation_are_those_of_the_publishers(babi_folder: Path) -> None:
    """Both together are the questions of `en`, in another order."""
    for number, name in ((1, "qa1_single-supporting-fact"), (19, "qa19_path-finding")):
        parts = (f"en-valid/qa{number}_{part}.txt" for part in ("train", "valid"))
        both = [repr(each) for part in parts for each in plain(babi_folder, part)]
        assert sorted(both) == sorted(map(repr, plain(babi_folder, f"en/{name}_train.txt")))


def test_babi_checksums_are_those_beside_the_archives(shared_data: Path) -> None:
    beside = {}
    for path in (shared_data / "babi").glob("*.sha256"):
        for line in path.read_text().splitlines():
            checksum, name = line.split()
            beside[name.removeprefix("tasks_1-20_v1-2/")] = checksum
    known = published_checksums("babi")
    assert len(known) == 20 * 6 - 1 and known.items() <= beside.items()


def test_babi_refuses_a_damaged_file(babi_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "en-valid").mkdir()
    for path in babi_folder.glob("en-valid/qa1_*"):
        (tmp_path / "en-valid" / path.name).write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"qa1_train\.txt is damaged"):
        Babi(tmp_path).vocabulary  # noqa: B018


def write(
    folder: Path, number: int, known: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of three questions, with its checksums."""
    (folder / "en-valid").mkdir(exist_ok=True)
    for part, place in (("train", "Garden"), ("valid", "hall"), ("test", "garden")):
        name = f"en-valid/qa{number}_{part}.txt"
        text = f"1 Mary is in the {place}.\n2 Where is Mary? \t{place}\t1\n"
        (folder / name).write_text(text)
        known[name] = sha256(text.encode()).hexdigest()
    monkeypatch.setattr("graphut.experiments.tasks.babi._CHECKSUMS", known)


def test_babi_a_small_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, str] = {}
    for number in (1, 4):
        write(tmp_path, number, known, monkeypatch)
    task = Babi(tmp_path, tasks="1,4")
    assert task.answers.symbols == ("garden", "hall")
    assert task.vocabularies.keys() == {"text", "answer"}
    first, second = task.train(0, 0)
    assert (first.group, second.group) == ("qa1", "qa4")
    asked = (["mary is in the garden"], "where is mary ?", "garden")
    assert text_of(task, first) == text_of(task, second) == asked
    assert [q.answer for q in task.validation] == [1, 1]


def test_babi_reads_from_the_cache_what_was_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHUT_CACHE", str(tmp_path / "cache"))
    known: dict[str, str] = {}
    for number in (1, 4):
        write(tmp_path, number, known, monkeypatch)
    first = Babi(tmp_path, tasks="1,4")
    assert first.test
    monkeypatch.setattr("graphut.experiments.tasks.babi.parse_stories", None)  # not called again
    again = Babi(tmp_path, tasks="4,1")
    assert (again.train(0, 0), again.test) == (first.train(0, 0), first.test)
    assert (again.vocabulary, again.answers) == (first.vocabulary, first.answers)
    with pytest.raises(TypeError):  # it is called
        Babi(tmp_path, tasks="1,4", longest_story=1).train(0, 0)


def test_babi_names_the_files_that_are_missing(tmp_path: Path) -> None:
    wanted = r"there is no .*qa2_train\.txt; missing in the folder: .*qa2_test\.txt; .*tar\.gz"
    with pytest.raises(FileNotFoundError, match=wanted):
        Babi(tmp_path, tasks="2").train(0, 0)


@pytest.mark.parametrize("text", ["", "0", "21", "1-", "1,,2", "one", "-3", "2:4", "5-2", "1,20-1"])
def test_parse_tasks_quotes_what_is_no_task(text: str) -> None:
    with pytest.raises(ValueError, match=f'or "all"; got {re.escape(repr(text))}'):
        Babi("tasks", tasks=text)


def test_parse_tasks_returns_numbers() -> None:
    assert parse_tasks("all") == list(range(1, 21))
    assert parse_tasks(" 3, 1-2,2") == [1, 2, 3]
