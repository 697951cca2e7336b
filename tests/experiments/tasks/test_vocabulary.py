from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.tasks import Vocabulary
from graphut.models import universal_transformer
from graphut.sentences import BOS, EOS

symbols = st.text(min_size=1).filter(lambda s: s.split() == [s] and s not in ("<bos>", "<eos>"))


def test_bos_and_eos_are_those_of_the_model() -> None:
    assert (BOS, EOS) == (universal_transformer.BOS, universal_transformer.EOS)


@given(st.lists(symbols, unique=True, min_size=1), st.data())
def test_decode_undoes_encode(known: list[str], data: st.DataObject) -> None:
    vocabulary = Vocabulary(known)
    text = data.draw(st.lists(st.sampled_from(known)))
    tokens = vocabulary.encode(text)
    assert vocabulary.decode(tokens) == text
    assert all(max(BOS, EOS) < token < len(vocabulary) for token in tokens)


@given(st.lists(symbols, unique=True, min_size=1), st.data())
def test_read_undoes_write(known: list[str], data: st.DataObject) -> None:
    vocabulary = Vocabulary(known)
    tokens = data.draw(st.lists(st.integers(2, len(vocabulary) - 1)))
    assert vocabulary.read(vocabulary.write(tokens)) == tokens


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a b", "a b"),
        ("ab", "a b"),
        (" ba\n", "b a"),
        ("to", "to"),
        ("toa", "t o a"),
        ("to a", "to a"),
        ("", ""),
        ("a", "a"),
    ],
)
def test_spaces_may_be_left_out_between_characters(text: str, read: str) -> None:
    vocabulary = Vocabulary(["a", "b", "t", "o", "to"])
    assert vocabulary.write(vocabulary.read(text)) == read


@pytest.mark.parametrize(("text", "unknown"), [("abc", "abc"), ("a bc", "bc"), ("ab ba", "ab")])
def test_a_text_that_is_not_all_characters_is_read_by_its_spaces(text: str, unknown: str) -> None:
    with pytest.raises(ValueError, match=f"unknown symbol '{unknown}'"):
        Vocabulary("ab").read(text)


def test_ids_follow_the_order_of_the_symbols() -> None:
    vocabulary = Vocabulary(["b", "a"])
    assert vocabulary.encode("ab") == [3, 2]
    assert vocabulary.decode([BOS, 2, 3, EOS]) == ["<bos>", "b", "a", "<eos>"]
    assert len(vocabulary) == 4
    assert "a" in vocabulary and "c" not in vocabulary


@pytest.mark.parametrize("symbol", ["Q", "<bos>", "<eos>", ""])
def test_an_unknown_symbol_is_quoted_beside_the_known(symbol: str) -> None:
    with pytest.raises(ValueError, match=f"unknown symbol '{symbol}'; known are: a b c$"):
        Vocabulary("abc").encode(["a", symbol])


def test_a_long_vocabulary_is_not_listed_in_full() -> None:
    vocabulary = Vocabulary(str(number) for number in range(1000))
    assert repr(vocabulary).endswith("28 29 ... and 970 more)")


@pytest.mark.parametrize("token", [-1, 5])
def test_a_token_out_of_range_is_quoted(token: int) -> None:
    with pytest.raises(ValueError, match=rf"token id {token} is not in 0\.\.4"):
        Vocabulary("abc").decode([2, token])


@pytest.mark.parametrize("symbol", ["", "a b", "a\n", "<bos>", "<eos>"])
def test_what_cannot_be_a_symbol(symbol: str) -> None:
    with pytest.raises(ValueError, match="cannot be a symbol"):
        Vocabulary(["a", symbol])


def test_a_symbol_comes_once() -> None:
    with pytest.raises(ValueError, match="'b' comes more than once"):
        Vocabulary("abcb")


def test_save_and_load(tmp_path: Path) -> None:
    vocabulary = Vocabulary(["ü", "b"])
    vocabulary.save(tmp_path / "vocabulary.json")
    assert Vocabulary.load(tmp_path / "vocabulary.json") == vocabulary


@pytest.mark.parametrize("content", [{"a": 2}, ["a", 3], "abc"])
def test_a_foreign_file_is_named(tmp_path: Path, content: object) -> None:
    path = tmp_path / "vocabulary.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"vocabulary\.json is not a vocabulary"):
        Vocabulary.load(path)
