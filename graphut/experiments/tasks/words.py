"""A vocabulary of words, and one for all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from graphut.experiments.tasks.vocabulary import RESERVED, Vocabulary

UNKNOWN = "<unk>"


class Words(Vocabulary):
    """The words of texts; whatever else is read becomes the word `<unk>`.

    Parameters
    ----------
    symbols : iterable of str
        Words, `<unk>` among them.

    Examples
    --------
    >>> words = Words.learn([["the", "key", "to", "the", "keys"], ["to", "be"]], least=2)
    >>> words
    Vocabulary(<unk> the to)
    >>> words.write(words.read("to the lighthouse"))
    'to the <unk>'
    """

    @classmethod
    def learn(
        cls, texts: Iterable[Iterable[str]], *, least: int = 1, most: int | None = None
    ) -> Words:
        """Return the vocabulary of texts, the most frequent words first.

        Parameters
        ----------
        texts : iterable of iterable of str
            Words.
        least : int
            Smallest number of times that a word must come. `<unk>` is learned from rarer ones.
        most : int, optional
            Words at most; the most frequent are kept.
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
