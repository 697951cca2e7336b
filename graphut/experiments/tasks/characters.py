"""A vocabulary of single characters."""

from __future__ import annotations

from collections.abc import Sequence

from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.sentences import BOS, EOS

_VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥"}


class Characters(Vocabulary):
    r"""The characters of texts, white space too.

    White space has a visible name, since a symbol may hold none: a space is `␣`, a line's end
    `⏎`, a tab `⇥`, and any other white space, as these three characters themselves, is its
    number, such as `<U+00A0>`.

    Parameters
    ----------
    symbols : iterable of str
        Characters, and names of characters.

    Examples
    --------
    >>> characters = Characters.of("to be\nor not")
    >>> characters.readable(characters.read("be\nnot"))
    ['b', 'e', '⏎', 'n', 'o', 't']
    >>> characters.write(characters.read("be\nnot"))
    'be\nnot'
    """

    @classmethod
    def of(cls, text: str) -> Characters:
        """Return the characters of a text, in the order of their numbers."""
        return cls(map(symbol_of, sorted(set(text))))

    def read(self, text: str) -> list[int]:
        """Return the token ids of the characters of a text.

        Raises
        ------
        ValueError
            If one is not in the vocabulary.
        """
        symbols = {character: symbol_of(character) for character in set(text)}
        return self.encode(symbols[character] for character in text)

    def write(self, tokens: Sequence[int]) -> str:
        """Return the text of token ids; `<bos>` and `<eos>` stand for no character."""
        own = [token for token in tokens if token not in (BOS, EOS)]
        return "".join(map(character_of, self.decode(own)))


def symbol_of(character: str) -> str:
    r"""Return the name of a character.

    Examples
    --------
    >>> [symbol_of(character) for character in "a \x0b␣"]
    ['a', '␣', '<U+000B>', '<U+2423>']
    """
    if character in _VISIBLE:
        return _VISIBLE[character]
    if character in _VISIBLE.values() or not character.split():
        return f"<U+{ord(character):04X}>"
    return character


def character_of(symbol: str) -> str:
    r"""Return the character of a name.

    Examples
    --------
    >>> [character_of(symbol_of(character)) for character in "a \x0b␣"]
    ['a', ' ', '\x0b', '␣']
    """
    if symbol in _VISIBLE.values():
        return next(character for character, name in _VISIBLE.items() if name == symbol)
    return symbol if len(symbol) == 1 else chr(int(symbol[3:-1], 16))
