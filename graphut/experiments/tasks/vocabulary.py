"""Symbols and their token ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from graphut._files import read_json, write_json

RESERVED = ("<bos>", "<eos>")
"""The symbols of the token ids 0 and 1."""
_SHOWN = 30


@dataclass(frozen=True)
class Vocabulary:
    """The symbols of a language; the token ids 0 and 1 are `<bos>` and `<eos>`.

    Parameters
    ----------
    symbols : iterable of str
        Distinct and free of white space. The first has the token id 2.

    Raises
    ------
    ValueError
        If a symbol is empty, has white space in it, is reserved or comes twice.

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
        return f"Vocabulary({self._listing()})"

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {symbol: index for index, symbol in enumerate(self.symbols, start=len(RESERVED))}

    def _listing(self) -> str:
        more = len(self.symbols) - _SHOWN
        tail = f" ... and {more} more" if more > 0 else ""
        return " ".join(self.symbols[:_SHOWN]) + tail

    def encode(self, symbols: Iterable[str]) -> list[int]:
        """Return the token ids of symbols.

        Raises
        ------
        ValueError
            If a symbol is not in the vocabulary.
        """
        try:
            return [self._ids[symbol] for symbol in symbols]
        except KeyError as error:
            unknown = error.args[0]
            raise ValueError(f"unknown symbol {unknown!r}; known are: {self._listing()}") from None

    def decode(self, tokens: Sequence[int]) -> list[str]:
        """Return the symbols of token ids.

        Raises
        ------
        ValueError
            If a token id is out of range.
        """
        names = RESERVED + self.symbols
        for token in tokens:
            if not 0 <= token < len(names):
                raise ValueError(f"token id {token} is not in 0..{len(names) - 1}")
        return [names[token] for token in tokens]

    def read(self, text: str) -> list[int]:
        """Return the token ids of a text: symbols between white space.

        The spaces may be left out where the whole text is no symbol and each character is one.

        Raises
        ------
        ValueError
            If a symbol is not in the vocabulary.

        Examples
        --------
        >>> Vocabulary("abc").read("ca") == Vocabulary("abc").read("c a")
        True
        """
        parts = text.split()
        if len(parts) == 1 and parts[0] not in self and all(symbol in self for symbol in parts[0]):
            parts = list(parts[0])
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
        """Read a file that `save` has written.

        Raises
        ------
        ValueError
            If the file is not a JSON list of symbols.
        """
        symbols = read_json(path)
        if not isinstance(symbols, list) or not all(isinstance(s, str) for s in symbols):
            raise ValueError(f"{path} is not a vocabulary: expected a JSON list of strings")
        return cls(symbols)
