from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.babi import StoryQuestion, parse_stories, sentences, words

WORDS = st.lists(st.sampled_from(["Mary", "went", "home", "milk"]), min_size=1, max_size=4)
SAID = WORDS.map(lambda parts: (" ".join(parts) + ".", None, ()))


@st.composite
def stories(draw: st.DrawFn) -> list[list[tuple[str, str | None, tuple[int, ...]]]]:
    """Stories of sentences: what is said, or asked with an answer and supporting facts."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        story: list[tuple[str, str | None, tuple[int, ...]]] = [draw(SAID)]
        for _ in range(draw(st.integers(0, 5))):
            if draw(st.booleans()):
                story.append(draw(SAID))
                continue
            facts = sum(answer is None for _, answer, _ in story)
            from_facts = draw(st.lists(st.integers(0, facts - 1), max_size=3))
            story.append(
                ("Where is it?", draw(st.sampled_from(["home", "n,s"])), tuple(from_facts))
            )
        found.append(story)
    return found


@given(stories(), st.booleans())
def test_parse_stories_is_the_reverse_of_writing(
    found: list[list[tuple[str, str | None, tuple[int, ...]]]], space: bool
) -> None:
    lines, expected = [], []
    for story in found:
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
    with pytest.raises(ValueError, match=message):
        list(parse_stories(f"1 Mary went home.\n{line}\n"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mary went home. Where is Mary?", ["Mary went home.", "Where is Mary?"]),
        ("  Where   is Mary ", ["Where   is Mary"]),
        ("Mary ran.John slept. Who ran?", ["Mary ran.", "John slept.", "Who ran?"]),
        ("Where?! Why?", ["Where?", "! Why?"]),
        (" . ? ", []),
        ("", []),
    ],
)
def test_sentences_of_a_text(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_words_are_in_small_letters_and_a_question_mark_is_one() -> None:
    assert words("Where is Julie?") == ["where", "is", "julie", "?"]
    assert words("John's well-known milk, there.") == ["john's", "well-known", "milk", "there"]


def test_story_question_with_last_facts() -> None:
    asked = StoryQuestion(["a.", "b.", "c."], "d?", "e", (0, 2))
    assert (
        asked.with_last_facts(None) == asked.with_last_facts(3) == asked.with_last_facts(9) == asked
    )
    assert asked.with_last_facts(2) == StoryQuestion(["b.", "c."], "d?", "e", (1,))


def test_story_question_encode() -> None:
    vocabulary, answers = Vocabulary(["mary", "ran"]), Vocabulary(["yes", "no"])
    asked = StoryQuestion(["Mary ran."], "ran", "no", (0,))
    found = asked.encode(lambda sentence: vocabulary.encode(words(sentence)), answers, "qa1")
    assert found == ([[2, 3]], [3], 1, (0,), "qa1")
    with pytest.raises(ValueError, match="unknown symbol 'maybe'"):
        StoryQuestion([], "ran", "maybe", ()).encode(str.split, answers)  # type: ignore[arg-type]
