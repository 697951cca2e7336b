from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.tasks.words import UNKNOWN, Words

TEXTS = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=9), max_size=9)


@given(TEXTS, st.integers(1, 4), st.none() | st.integers(1, 5))
def test_the_most_frequent_words_are_learned(
    texts: list[list[str]], least: int, most: int | None
) -> None:
    count = Counter(word for text in texts for word in text)
    words = Words.learn(texts, least=least, most=most)
    learned = words.symbols[1:]
    assert words.symbols[0] == UNKNOWN
    assert all(count[word] >= least for word in learned)
    left = [word for word in count if count[word] >= least and word not in learned]
    assert not left or len(learned) == most
    rarest = min((count[word] for word in learned), default=0)
    assert all(count[word] <= rarest for word in left)
    assert [count[word] for word in learned] == sorted(map(count.get, learned), reverse=True)


def test_what_is_not_known_is_unknown() -> None:
    words = Words(["b", UNKNOWN, "a"])
    assert words.unknown == 3
    assert words.read("a c\tb d") == [4, 3, 2, 3]
    assert words.write([4, 3]) == "a <unk>"
    assert words.read("A") == [4]
    assert words.encode(["A"]) == [3]
    assert "c" not in words


def test_a_text_may_have_unknown_words_of_its_own() -> None:
    words = Words.learn([[UNKNOWN, "a", UNKNOWN, "<eos>"]])
    assert words.symbols == (UNKNOWN, "a")
    assert words.read("a <eos>") == [3, words.unknown]


def test_a_vocabulary_without_a_word_for_others() -> None:
    with pytest.raises(ValueError, match="a vocabulary of words has <unk> among them"):
        Words(["a", "b"])


def test_it_is_saved_like_others(tmp_path: Path) -> None:
    words = Words.learn([["to", "be"]])
    words.save(tmp_path / "words.json")
    assert Words.load(tmp_path / "words.json") == words
