"""Vocabularies of symbols and characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar

from graphut._tokens import BOS, EOS

RESERVED = ("<bos>", "<eos>")
"""The symbols of the token ids 0 and 1."""
_SHOWN = 30
_VISIBLE = {" ": "␣", "\n": "⏎", "\t": "⇥"}


@dataclass(frozen=True)
class Vocabulary:
    """A mapping between symbols and token ids; 0 is `<bos>`, 1 is `<eos>`, 2 the first symbol.

    A text has spaces between symbols; subclasses read and write other texts. Raise `ValueError` if
    a symbol is empty, contains white space, is reserved or occurs twice.

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

    kinds: ClassVar[dict[str, type[Vocabulary]]] = {}
    """All classes of vocabularies by name, so that `load` finds them."""

    symbols: tuple[str, ...]

    def __init_subclass__(cls) -> None:
        """Add the class to `kinds`."""
        cls.kinds[cls.__name__] = cls

    def __init__(self, symbols: Iterable[str]) -> None:
        object.__setattr__(self, "symbols", tuple(symbols))
        for symbol in self.symbols:
            if symbol in RESERVED or not self._is_symbol(symbol):
                raise ValueError(
                    f"{symbol!r} cannot be a symbol: it is reserved, no word, or no character"
                )
        if len(self._ids) != len(self.symbols):
            twice = next(s for s in self.symbols if self.symbols.count(s) > 1)
            raise ValueError(f"the symbol {twice!r} occurs more than once")

    def __len__(self) -> int:
        """Return the number of token ids, including `<bos>` and `<eos>`."""
        return len(RESERVED) + len(self.symbols)

    def __contains__(self, symbol: str) -> bool:
        """Return whether the vocabulary has a symbol."""
        return symbol in self._ids

    def __repr__(self) -> str:
        """Return a text with the first symbols and the number of the other symbols."""
        return f"{type(self).__name__}({self._listing()})"

    def _is_symbol(self, symbol: str) -> bool:
        return symbol.split() == [symbol]

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {symbol: index for index, symbol in enumerate(self.symbols, start=len(RESERVED))}

    def _listing(self) -> str:
        more = len(self.symbols) - _SHOWN
        tail = f" ... and {more} more" if more > 0 else ""
        return " ".join(map(_visible, self.symbols[:_SHOWN])) + tail

    def encode(self, symbols: Iterable[str]) -> list[int]:
        """Return the token ids of symbols; raise `ValueError` for an unknown symbol."""
        try:
            return [self._ids[symbol] for symbol in symbols]
        except KeyError as error:
            unknown = error.args[0]
            near = get_close_matches(unknown.lower(), self.symbols, n=1, cutoff=0.75)
            meant = f" (did you mean {near[0]!r}?)" if near else ""
            raise ValueError(
                f"unknown symbol {unknown!r}{meant}; known are: {self._listing()}"
            ) from None

    def decode(self, tokens: Sequence[int]) -> list[str]:
        """Return the symbols of token ids; raise `ValueError` for an id out of range."""
        names = RESERVED + self.symbols
        for token in tokens:
            if not 0 <= token < len(names):
                raise ValueError(f"token id {token} is not in 0..{len(names) - 1}")
        return [names[token] for token in tokens]

    def read(self, text: str) -> list[int]:
        """Return the token ids of a text; its symbols are separated by white space.

        A text without white space that is not itself a symbol is read character by character, if
        all symbols are single characters. Raise `ValueError` for an unknown symbol.
        """
        parts = text.split()
        is_spelled = max(map(len, self.symbols), default=0) == 1 and len(parts) == 1
        if is_spelled and parts[0] not in self and parts[0] not in RESERVED:
            parts = [*parts[0]]
        return self.encode(parts)

    def write(self, tokens: Sequence[int]) -> str:
        """Return the text that the token ids encode; the inverse of `read`."""
        return " ".join(self.decode(tokens))

    def readable(self, tokens: Sequence[int]) -> list[str]:
        """Return a text for each token id, to be shown in pictures and tables."""
        return self.decode(tokens)

    def to_json(self) -> dict[str, Any]:
        """Return the class and the content of the vocabulary, as JSON can represent them."""
        return {"kind": type(self).__name__, "symbols": [*self.symbols]}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Vocabulary:
        """Return a vocabulary of this class from the result of `to_json`."""
        return cls(state["symbols"])


Vocabulary.kinds["Vocabulary"] = Vocabulary


def vocabulary_from_json(state: Mapping[str, Any]) -> Vocabulary:
    """Return a vocabulary of any class from the result of `to_json`.

    Raise `ValueError` for an unknown class; the module of a user's own class must be imported.
    """
    name = state["kind"]
    if name == "Subwords":
        import_module("graphut.subwords")  # adds its class
    if name not in Vocabulary.kinds:
        raise ValueError(f"import the module of the vocabulary's class {name!r} first")
    return Vocabulary.kinds[name].from_json(state)


class Characters(Vocabulary):
    r"""A vocabulary of characters, including white space.

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
        """Return the vocabulary of the characters in a text, in the order of their code points."""
        return cls(sorted(set(text)))

    def read(self, text: str) -> list[int]:
        """Return the token id of each character; raise `ValueError` for an unknown one."""
        return self.encode(text)

    def write(self, tokens: Sequence[int]) -> str:
        """Return the text that the token ids encode, without `<bos>` and `<eos>`."""
        return "".join(self.decode([token for token in tokens if token not in (BOS, EOS)]))

    def readable(self, tokens: Sequence[int]) -> list[str]:
        """Return the characters, with visible signs for white space."""
        return [_visible(symbol) for symbol in self.decode(tokens)]

    def _is_symbol(self, symbol: str) -> bool:
        return len(symbol) == 1


def _visible(symbol: str) -> str:
    """Return a symbol, or a sign or the code point of white space."""
    return _VISIBLE.get(symbol, symbol if symbol.split() else f"<U+{ord(symbol):04X}>")
