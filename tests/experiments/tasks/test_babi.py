from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.tasks import Question
from graphut.experiments.tasks.babi import Babi, StoryQuestion, parse_stories, sentences, words
from graphut.experiments.tasks.files import published_checksums
from tests.helpers import refuses

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
    questions, facts = [], dict[int, str]()
    for line in (folder / name).read_text().splitlines():
        number, _, rest = line.lower().partition(" ")
        if number == "1":
            facts = {}
        if "\t" in rest:
            question, answer, supporting = rest.split("\t")
            places = [list(facts).index(int(one)) for one in supporting.split()]
            words = question.replace("?", " ?").split()
            questions.append((list(facts.values()), " ".join(words), answer, places))
        else:
            facts[int(number)] = rest.removesuffix(".")
    return questions


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
    for single in alone:
        [group] = single.groups
        jointly = task.test_sets[group]
        assert [text_of(task, q) for q in jointly] == [text_of(single, q) for q in single.test]
        assert {q.group for q in jointly} == {group}
        assert list(single.test_sets) == ["test"]
    assert len(task.train(0, 0)) == 1800 and len(task.test) == 2000
    assert set(task.answers.symbols) == {s for single in alone for s in single.answers.symbols}


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
    expected = (["mary is in the garden"], "where is mary ?", "garden")
    assert text_of(task, first) == text_of(task, second) == expected
    assert [q.answer for q in task.validation] == [1, 1]


def test_babi_reads_numbers_of_tasks() -> None:
    assert Babi("tasks", tasks="all").groups == [f"qa{n}" for n in range(1, 21)]
    assert Babi("tasks", tasks=" 3, 1-2,2").groups == ["qa1", "qa2", "qa3"]
    for text in ("", "0", "21", "1-", "1,,2", "one", "-3", "2:4", "5-2", "1,20-1"):
        message = f"tasks must be whole numbers from 1 to 20, as in '1,3-5' .*; got '{text}'"
        refuses(message, Babi, "tasks", tasks=text)


WORDS = st.lists(st.sampled_from(["Mary", "went", "home", "milk"]), min_size=1, max_size=4)
SAID = WORDS.map(lambda parts: (" ".join(parts) + ".", None, ()))


Story = list[tuple[str, str | None, tuple[int, ...]]]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """A story of sentences: what is said, or asked with an answer and supporting facts."""
    story: Story = [draw(SAID)]
    for _ in range(draw(st.integers(0, 5))):
        if draw(st.booleans()):
            story.append(draw(SAID))
            continue
        facts = sum(answer is None for _, answer, _ in story)
        from_facts = draw(st.lists(st.integers(0, facts - 1), max_size=3))
        story.append(("Where is it?", draw(st.sampled_from(["home", "n,s"])), tuple(from_facts)))
    return story


@given(st.lists(stories(), min_size=1, max_size=3), st.booleans())
def test_parse_stories_is_the_reverse_of_writing(every: list[Story], space: bool) -> None:
    lines, expected = [], []
    for story in every:
        facts: list[str] = []
        number_of: list[int] = []
        for number, (sentence, answer, supporting) in enumerate(story, 1):
            if answer is None:
                facts.append(sentence)
                number_of.append(number)
                lines.append(f"{number} {sentence}")
            else:
                numbers = " ".join(str(number_of[place]) for place in supporting)
                lines.append(f"{number} {sentence}{' ' * space}\t{answer}\t{numbers}")
                expected.append(StoryQuestion(list(facts), sentence, answer, supporting))
    assert list(parse_stories("\n".join(lines) + "\n")) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Mary went home.", "got 'Mary went home.'"),
        ("1", "got '1'"),
        ("2 Where is Mary?\thome", r"got '2 Where is Mary\?\\thome'"),
        ("2 Where is Mary?\thome\t7", "refers to line 7, which is not a fact"),
    ],
)
def test_parse_stories_quotes_a_wrong_line(line: str, message: str) -> None:
    refuses(message, list, parse_stories(f"1 Mary went home.\n{line}\n"))


def test_sentences_and_words_of_a_text() -> None:
    for text, expected in {
        "Mary ran.John slept. Who ran?": ["Mary ran.", "John slept.", "Who ran?"],
        "  Where   is Mary ": ["Where   is Mary"],
        "Where?! Why?": ["Where?", "! Why?"],
        " . ? ": [],
        "": [],
    }.items():
        assert sentences(text) == expected
    assert words("Where is Julie?") == ["where", "is", "julie", "?"]
    assert words("John's well-known milk, there.") == ["john's", "well-known", "milk", "there"]


def test_story_question_with_last_facts() -> None:
    question = StoryQuestion(["a.", "b.", "c."], "d?", "e", (0, 2))
    assert all(question.with_last_facts(count) == question for count in (None, 3, 9))
    assert question.with_last_facts(2) == StoryQuestion(["b.", "c."], "d?", "e", (1,))
