import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut._tokens import BOS, EOS
from graphut.vocabulary import (
    Characters,
    Vocabulary,
    vocabulary_from_json,
)
from tests.helpers import refuses

symbols = st.text(min_size=1).filter(lambda s: s.split() == [s] and s not in ("<bos>", "<eos>"))


@given(st.lists(symbols, unique=True, min_size=1), st.data())
def test_vocabulary_decode_undoes_encode(known: list[str], data: st.DataObject) -> None:
    vocabulary = Vocabulary(known)
    text = data.draw(st.lists(st.sampled_from(known)))
    tokens = vocabulary.encode(text)
    assert vocabulary.decode(tokens) == text
    assert all(max(BOS, EOS) < token < len(vocabulary) for token in tokens)
    assert vocabulary.read(vocabulary.write(tokens)) == tokens


@pytest.mark.parametrize(
    ("text", "read"),
    [("a b", "a b"), ("ab", "a b"), (" ba\n", "b a"), ("to", "t o"), ("", "")],
)
def test_vocabulary_reads_characters_without_spaces(text: str, read: str) -> None:
    vocabulary = Vocabulary("abto")
    assert vocabulary.write(vocabulary.read(text)) == read
    words = Vocabulary(["a", "b", "t", "o", "to"])
    assert words.write(words.read("to a")) == "to a"
    refuses("unknown symbol 'ab'", words.read, "ab")  # is it a word, or two?


def test_vocabulary_quotes_unknown_tokens_and_wrong_symbols() -> None:
    symbols = Vocabulary(["a", "b", "digit"])
    for text, unknown in (
        ("abc", "'abc'"),
        ("a digits", r"'digits' \(did you mean 'digit'[?]\)"),
        ("A b", r"'A' \(did you mean 'a'[?]\)"),
    ):
        refuses(f"unknown symbol {unknown}; known are: a b digit", symbols.read, text)
    for token in (-1, 5):
        refuses(rf"token id {token} is not in 0\.\.4", Vocabulary("abc").decode, [2, token])
    for symbol in ("", "a b", "a\n", "<bos>", "<eos>"):
        refuses("cannot be a symbol", Vocabulary, ["a", symbol])
    refuses("'the' cannot be a symbol", Characters, ["the"])
    refuses("'b' occurs more than once", Vocabulary, "abcb")


@pytest.mark.parametrize("vocabulary", [Vocabulary("üb"), Characters.of("to\n")])
def test_vocabulary_is_restored_from_json(vocabulary: Vocabulary) -> None:
    assert vocabulary_from_json(vocabulary.to_json()) == vocabulary


def test_vocabulary_of_the_user_is_restored_from_json() -> None:
    class Mine(Vocabulary):
        pass

    state = Mine("ab").to_json()
    assert type(vocabulary_from_json(state)) is Mine
    del Vocabulary.kinds["Mine"]
    refuses("import the module of the vocabulary's class 'Mine'", vocabulary_from_json, state)


CHARACTER = st.characters(exclude_categories=("Cs",)) | st.sampled_from(" \n\t\r\x0b\u2028␣⏎⇥")


@given(st.text(CHARACTER, max_size=20))
def test_characters_read_undoes_write(text: str) -> None:
    characters = Characters.of(text)
    assert len(characters) == 2 + len(set(text))
    assert all(map(str.split, characters.readable(characters.read(text))))
    assert characters.write([BOS, *characters.read(text), EOS]) == text
    assert len(characters.read(text)) == len(text)
