from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

from graphut.experiments.tasks import Question
from graphut.experiments.tasks.babi import Babi
from graphut.experiments.tasks.files import published_checksums

# Questions of training, validation and test, counted with grep.
SIZES = {17: (904, 96, 1000), 18: (905, 95, 1000), 20: (904, 96, 1000)}


def text_of(task: Babi, question: Question) -> tuple[list[str], str, str]:
    return (
        [task.vocabulary.write(fact) for fact in question.facts],
        task.vocabulary.write(question.question),
        task.answers.symbols[question.answer],
    )


def plain(folder: Path, name: str) -> list[tuple[list[str], str, str, list[int]]]:
    """Parse the questions of a file by splitting its lines."""
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


@pytest.mark.parametrize("number", [1, 3, 5, 8, 17, 18, 19, 20])
def test_babi_has_every_question_of_the_files(number: int, babi_folder: Path) -> None:
    task = Babi(babi_folder, tasks=str(number))
    parts = {"train": task.train(0, 0), "valid": task.validation, "test": task.test}
    for part, questions in parts.items():
        expected = plain(babi_folder, f"en-valid/qa{number}_{part}.txt")
        assert [text_of(task, q) for q in questions] == [each[:3] for each in expected]
        assert [list(q.supporting) for q in questions] == [each[3] for each in expected]
    assert tuple(map(len, parts.values())) == SIZES.get(number, (900, 100, 1000))
    if number == 3:
        assert max(len(question.facts) for question in task.test) == 228


def test_babi_several_tasks_are_learned_jointly_and_reported_separately(babi_folder: Path) -> None:
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


def test_babi_longest_story_keeps_the_last_facts(babi_folder: Path) -> None:
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


def test_babi_train_and_validation_are_the_published_training_set(babi_folder: Path) -> None:
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


def test_babi_of_a_small_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[str, str] = {}
    (tmp_path / "en-valid").mkdir()
    for number in (1, 4):
        for part, place in (("train", "Garden"), ("valid", "hall"), ("test", "garden")):
            name = f"en-valid/qa{number}_{part}.txt"
            text = f"1 Mary is in the {place}.\n2 Where is Mary? \t{place}\t1\n"
            (tmp_path / name).write_text(text)
            known[name] = sha256(text.encode()).hexdigest()
    monkeypatch.setattr("graphut.experiments.tasks.babi._CHECKSUMS", known)
    task = Babi(tmp_path, tasks="1,4")
    assert task.answers.symbols == ("garden", "hall")
    assert task.vocabularies.keys() == {"text", "answer"}
    first, second = task.train(0, 0)
    assert (first.group, second.group) == ("qa1", "qa4")
    asked = (["mary is in the garden"], "where is mary ?", "garden")
    assert text_of(task, first) == text_of(task, second) == asked
    assert [q.answer for q in task.validation] == [1, 1]


@pytest.mark.parametrize("text", ["", "0", "21", "1-", "1,,2", "one", "-3", "2:4", "5-2", "1,20-1"])
def test_babi_quotes_invalid_numbers_of_tasks(text: str) -> None:
    message = (
        f"tasks must be whole numbers from 1 to 20, as in '1,3-5' .*; got {re.escape(repr(text))}"
    )
    with pytest.raises(ValueError, match=message):
        Babi("tasks", tasks=text)


def test_babi_reads_numbers_of_tasks() -> None:
    assert Babi("tasks", tasks="all").groups == [f"qa{n}" for n in range(1, 21)]
    assert Babi("tasks", tasks=" 3, 1-2,2").groups == ["qa1", "qa2", "qa3"]
