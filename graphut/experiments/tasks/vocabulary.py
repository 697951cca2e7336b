"""Vocabularies of symbols, of words and of characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from graphut._files import read_json, write_json
from graphut.sentences import BOS, EOS

RESERVED = ("<bos>", "<eos>")
"""The symbols of the token ids 0 and 1."""
UNKNOWN = "<unk>"
_SHOWN = 30
_VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥"}


@dataclass(frozen=True)
class Vocabulary:
    """The symbols of a language; the first has the token id 2, after `<bos>` and `<eos>`.

    Raise `ValueError` if a symbol is empty, has white space in it, is reserved or comes twice.

    Examples
    --------
    >>> letters = Vocabulary("abc")
    >>> len(letters)
    5
    >>> letters.encode(["c", "a"])
    [4, 2]
    >>> letters.decode([4, 2, 1])
    ['c', 'a', '<eos>']
    """

    symbols: tuple[str, ...]

    def __init__(self, symbols: Iterable[str]) -> None:
        object.__setattr__(self, "symbols", tuple(symbols))
        for symbol in self.symbols:
            if symbol in RESERVED or symbol.split() != [symbol]:
                raise ValueError(
                    f"{symbol!r} cannot be a symbol: it is reserved, empty or holds white space"
                )
        if len(self._ids) != len(self.symbols):
            twice = next(s for s in self.symbols if self.symbols.count(s) > 1)
            raise ValueError(f"the symbol {twice!r} comes more than once")

    def __len__(self) -> int:
        """Return the number of token ids, `<bos>` and `<eos>` included."""
        return len(RESERVED) + len(self.symbols)

    def __contains__(self, symbol: str) -> bool:
        """Return whether `encode` knows the symbol."""
        return symbol in self._ids

    def __repr__(self) -> str:
        """Return the first symbols, and the number of the others."""
        return f"{type(self).__name__}({self._listing()})"

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {symbol: index for index, symbol in enumerate(self.symbols, start=len(RESERVED))}

    def _listing(self) -> str:
        more = len(self.symbols) - _SHOWN
        tail = f" ... and {more} more" if more > 0 else ""
        return " ".join(self.symbols[:_SHOWN]) + tail

    def encode(self, symbols: Iterable[str]) -> list[int]:
        """Return the token ids of symbols; raise `ValueError` if one is unknown."""
        try:
            return [self._ids[symbol] for symbol in symbols]
        except KeyError as error:
            unknown = error.args[0]
            raise ValueError(f"unknown symbol {unknown!r}; known are: {self._listing()}") from None

    def decode(self, tokens: Sequence[int]) -> list[str]:
        """Return the symbols of token ids; raise `ValueError` if one is out of range."""
        names = RESERVED + self.symbols
        for token in tokens:
            if not 0 <= token < len(names):
                raise ValueError(f"token id {token} is not in 0..{len(names) - 1}")
        return [names[token] for token in tokens]

    def read(self, text: str) -> list[int]:
        """Return the token ids of a text: symbols between white space.

        The spaces may be left out where the whole text is no symbol and each character is one.
        Raise `ValueError` if a symbol is unknown.

        Examples
        --------
        >>> Vocabulary("abc").read("ca") == Vocabulary("abc").read("c a")
        True
        """
        parts = text.split()
        if len(parts) == 1 and parts[0] not in self and all(symbol in self for symbol in parts[0]):
            parts = list(parts[0])
        word = next((part for part in parts if len(part) > 1), None)
        if word is not None and all(len(symbol) == 1 for symbol in self.symbols):
            raise ValueError(
                f"unknown symbol {word!r}; put spaces between symbols, as in {' '.join(word)!r} "
                f"(graphut generate --characters does so); known are: {self._listing()}"
            )
        return self.encode(parts)

    def write(self, tokens: Sequence[int]) -> str:
        """Return the text of token ids, which `read` would read."""
        return " ".join(self.decode(tokens))

    def readable(self, tokens: Sequence[int]) -> list[str]:
        """Return what to print for each token id, to look at."""
        return self.decode(tokens)

    def save(self, path: str | Path) -> None:
        """Write the symbols as a JSON list, atomically."""
        write_json(path, list(self.symbols))

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read a file that `save` has written; raise `ValueError` if it is no list of symbols."""
        symbols = read_json(path)
        if not isinstance(symbols, list) or not all(isinstance(s, str) for s in symbols):
            raise ValueError(f"{path} is not a vocabulary: expected a JSON list of strings")
        return cls(symbols)


class Words(Vocabulary):
    """The words of texts, `<unk>` among them: whatever else is read becomes that word.

    Examples
    --------
    >>> words = Words.learn([["the", "key", "to", "the", "keys"], ["to", "be"]], least=2)
    >>> words
    Words(<unk> the to)
    >>> words.write(words.read("to the lighthouse"))
    'to the <unk>'
    """

    @classmethod
    def learn(
        cls, texts: Iterable[Iterable[str]], *, least: int = 1, most: int | None = None
    ) -> Words:
        """Return the vocabulary of texts, as lists of words: the most frequent words first.

        They are those that come `least` times at least, and `most` words at most. `<unk>` is
        learned from rarer ones.
        """
        count: Counter[str] = Counter()
        for text in texts:
            count.update(text)
        for word in (UNKNOWN, *RESERVED):  # a text may have such a word: it becomes `<unk>`
            del count[word]
        ranked = sorted(count, key=lambda word: (-count[word], word))
        return cls([UNKNOWN, *(word for word in ranked[:most] if count[word] >= least)])

    def __init__(self, symbols: Iterable[str]) -> None:
        super().__init__(symbols)
        if UNKNOWN not in self:
            raise ValueError(f"a vocabulary of words has {UNKNOWN} among them")

    @property
    def unknown(self) -> int:
        """The token id of `<unk>`."""
        return self._ids[UNKNOWN]

    def encode(self, symbols: Iterable[str]) -> list[int]:
        """Return the token ids of words, that of `<unk>` for those that are not known."""
        ids, unknown = self._ids, self.unknown
        return [ids.get(word, unknown) for word in symbols]

    def read(self, text: str) -> list[int]:
        """Return the token ids of the words, in small letters if not known as they stand."""
        return self.encode(word if word in self else word.lower() for word in text.split())


class Characters(Vocabulary):
    r"""The characters of texts, white space too.

    White space has a visible name, since a symbol may hold none: a space is `␣`, a line's end
    `⏎`, a tab `⇥`. The name of other white space, and of these three characters themselves, is
    their number, such as `<U+00A0>`.

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
        """Return the token ids of the characters of a text."""
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
    """Return the character whose name `symbol_of` has given."""
    if symbol in _VISIBLE.values():
        return next(character for character, name in _VISIBLE.items() if name == symbol)
    return symbol if len(symbol) == 1 else chr(int(symbol[3:-1], 16))
