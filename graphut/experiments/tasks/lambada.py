"""LAMBADA, for a language model: passages, whose last word is judged by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from graphut.experiments.tasks.base import Text, TextTask
from graphut.experiments.tasks.cache import cached, key_of
from graphut.experiments.tasks.files import read_text, text_files
from graphut.experiments.tasks.lambada_files import LAMBADA, read_passages, split_development
from graphut.experiments.tasks.packed import Arrays, pack_words, unpack_words
from graphut.experiments.tasks.windows import drawn_windows
from graphut.experiments.tasks.words import Words

_NOVELS = f"the publishers' train-novels are to be had {LAMBADA.origin}"
_FORMAT = 1


@dataclass(frozen=True)
class Lambada(TextTask):
    """LAMBADA: passages of novels, whose last word can be guessed from the whole alone.

    The task of arXiv 1606.06031 for a language model (arXiv 1807.03819, section 3.3). The
    protocol: train on 2662 novels, validate on the development passages, and judge on the test
    passages, from other novels. `novels` are files of the user's, since they are as large as they
    are; an epoch is windows at random places of them.

    Without them a model trains on the development passages, but for those that are held out to
    validate on. That is not the paper's protocol, and its figures are not to be compared.

    Parameters
    ----------
    data : str or Path
        The folder with `lambada_test_plain_text.txt` and the development passages in it.
    novels : str or Path, optional
        A file of text, or a folder of `.txt` files in folders: words between white space, like
        those of the passages. The publishers' `train-novels`.
    window : int
        Words of a window of the novels.
    epoch_size : int
        Windows in an epoch.
    held_out : int
        Development passages to validate on, where there are no novels.
    words : int
        Words in the vocabulary, at most: the most frequent in training, twice at least.

    Raises
    ------
    ValueError, FileNotFoundError
        When texts are asked for: if a file is not there, or not as it was published.

    Examples
    --------
    >>> Lambada("lambada", window=1)
    Traceback (most recent call last):
    ValueError: window must be at least 2, got 1
    """

    name: ClassVar[str] = "lambada"
    vocabulary_kind: ClassVar[type[Words]] = Words
    own_files: ClassVar[tuple[str, ...]] = ("novels",)

    data: str | Path = field(metadata={"help": f"folder of the passages, {LAMBADA.origin}"})
    novels: str | Path | None = field(
        default=None,
        metadata={
            "help": "file or folder of text to train on, such as the publishers' train-novels, "
            "instead of development passages (which is not the paper's protocol)"
        },
    )
    window: int = field(default=128, metadata={"help": "words of a window of the novels"})
    epoch_size: int = field(default=10_000, metadata={"help": "windows of novels in an epoch"})
    held_out: int = field(
        default=400, metadata={"help": "passages to validate on, where there are no novels"}
    )
    words: int = field(default=60_000, metadata={"help": "words in the vocabulary, at most"})

    def __post_init__(self) -> None:
        self._check_at_least(1, "epoch_size", "held_out", "words")
        self._check_at_least(2, "window")
        self._make_absolute("data", "novels")

    @cached_property
    def vocabulary(self) -> Words:
        if self.novels is None:
            return self._learn(self._passages[0])
        return Words(unpack_words(self._novels["words"]))

    def train(self, seed: int, epoch: int) -> list[Text]:
        """Windows at random places of the novels; or passages, the same in each epoch."""
        if self.novels is None:
            return self._train
        tokens, count = self._novels["tokens"], self.epoch_size
        return drawn_windows(tokens, self.window, count, seed=seed, epoch=epoch)

    @cached_property
    def validation(self) -> list[Text]:
        return self._judged(self._passages[1])

    @cached_property
    def test(self) -> list[Text]:
        return self._judged(read_passages(self.data, "test"))

    @cached_property
    def _train(self) -> list[Text]:
        return self._texts(self._passages[0])

    @cached_property
    def _passages(self) -> tuple[list[list[str]], list[list[str]]]:
        """Those that are trained on, and those that are validated on."""
        if self.novels is not None:
            return [], read_passages(self.data, "development")
        return split_development(self.data, self.held_out)

    @cached_property
    def _novels(self) -> Arrays:
        """The vocabulary of the novels, and all of their token ids."""
        key = key_of(self.name, _FORMAT, self.words, texts=self._novel_texts())
        return cached(key, self._parse_novels)

    def _parse_novels(self) -> Arrays:
        # One novel at a time: as words, all of them would fill the memory.
        words = self._learn(text.split() for text in self._novel_texts())
        parts = [np.array(words.encode(text.split()), np.int32) for text in self._novel_texts()]
        if not any(map(len, parts)):
            raise ValueError(
                f"{self.novels} holds no words: expected a text, or .txt files in a folder"
            )
        return {"words": pack_words(words.symbols), "tokens": np.concatenate(parts)}

    def _novel_texts(self) -> Iterator[str]:
        assert self.novels is not None
        return (read_text(file, _NOVELS) for file in text_files(self.novels))

    def _learn(self, texts: Iterable[Iterable[str]]) -> Words:
        return Words.learn(texts, least=2, most=self.words)

    def _judged(self, passages: list[list[str]]) -> list[Text]:
        texts = self._texts(passages)
        if all(text.tokens[-1] == self.vocabulary.unknown for text in texts):
            raise ValueError(
                "no last word of the passages is among those that are trained on: they are "
                "tokenized and in lower case"
            )
        return texts

    def _texts(self, passages: list[list[str]]) -> list[Text]:
        return [Text(self.vocabulary.encode(words)) for words in passages]
