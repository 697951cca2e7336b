from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphut.experiments.tasks.characters import Characters, character_of, symbol_of

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)


@given(TEXTS)
def test_a_text_comes_back(text: str) -> None:
    characters = Characters.of(text)
    assert len(characters) == 2 + len(set(text))
    assert characters.write(characters.read(text)) == text
    assert len(characters.read(text)) == len(text)


@given(st.characters(exclude_categories=("Cs",)))
def test_names_are_visible_and_tell_characters_apart(character: str) -> None:
    assert symbol_of(character).split() == [symbol_of(character)]
    assert character_of(symbol_of(character)) == character


def test_all_white_space_and_what_it_is_called_have_different_names() -> None:
    every = [chr(number) for number in range(0x3100) if not chr(number).strip()] + list("␣⏎⇥")
    assert len({symbol_of(character) for character in every}) == len(every) > 20
    assert list(map(symbol_of, " \n\t")) == ["␣", "⏎", "⇥"]


def test_ends_stand_for_no_character() -> None:
    characters = Characters.of("ab")
    assert characters.write([0, 2, 3, 1]) == "ab"
    assert characters.readable([0, 2, 1]) == ["<bos>", "a", "<eos>"]


def test_an_unknown_character_is_quoted() -> None:
    with pytest.raises(ValueError, match="unknown symbol '⏎'; known are: a b"):
        Characters.of("ab").read("a\n")


def test_it_is_saved_like_others(tmp_path: Path) -> None:
    characters = Characters.of("to be\n")
    characters.save(tmp_path / "characters.json")
    assert Characters.load(tmp_path / "characters.json") == characters
