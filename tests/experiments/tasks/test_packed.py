from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.tasks import Question
from graphut.experiments.tasks.packed import (
    Packed,
    add_prefix,
    pack_words,
    unpack_words,
    with_prefix,
)
from graphut.experiments.tasks.packed_questions import pack_questions, unpack_questions

SENTENCES = st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=4)
QUESTIONS = st.builds(
    Question,
    SENTENCES,
    st.lists(st.integers(0, 9), min_size=1, max_size=3),
    st.integers(0, 5),
    st.lists(st.integers(0, 3), max_size=2).map(tuple),
    st.sampled_from(["", "qa1", "qa12"]),
)
WORDS = st.text(min_size=1).filter(lambda text: text.split() == [text] and text.isprintable())


@given(SENTENCES, SENTENCES)
def test_sequences_are_as_they_were(first: list[list[int]], second: list[list[int]]) -> None:
    packed = Packed.joined([Packed.of(first), Packed.of(second)])
    both = [*first, *second]
    assert [*packed] == [packed[index] for index in range(len(packed))] == both
    assert packed.lengths.tolist() == [len(sequence) for sequence in both]
    arrays = packed.arrays("x") | Packed.of([[7]]).arrays("x.y")
    assert [*Packed.read(arrays, "x")] == both and [*Packed.read(arrays, "x.y")] == [[7]]


@given(st.lists(QUESTIONS, max_size=5), st.lists(QUESTIONS, max_size=5))
def test_questions_are_as_they_were(first: list[Question], second: list[Question]) -> None:
    arrays = add_prefix("a", pack_questions(first)) | add_prefix("b", pack_questions(second))
    assert unpack_questions(with_prefix("a", arrays)) == first
    assert unpack_questions(with_prefix("b", arrays)) == second


@given(st.lists(WORDS, min_size=1))
def test_words_are_as_they_were(words: list[str]) -> None:
    assert unpack_words(pack_words(words)) == words
