"""Translation: sentences of one language into another, in subwords of both."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.base import Pair, PairTask, in_batches
from graphut.experiments.tasks.cache import cached, key_of
from graphut.experiments.tasks.packed import Arrays, Packed
from graphut.experiments.tasks.subwords import BYTES, Subwords, tokenizers_package

_PARTS = ("train", "validation", "test")
LANGUAGES = ("en", "de")
_NAMES = [f"{part}.{language}" for part in _PARTS for language in LANGUAGES]
_AT_ONCE = 10_000  # lines: what is found of each is much larger than its token ids
_FORMAT = 2


@dataclass(frozen=True)
class TranslationTask(PairTask):
    """Sentences to translate, as subwords that both languages share.

    The subwords are learned from the training sentences alone. Sentences in a batch are of any
    length: nothing is padded, so that they need not be grouped by it.

    Parameters
    ----------
    data : str or Path
        The folder of the data.
    languages : str
        "en-de", from English to German, or "de-en".
    subwords : int
        Pieces of words to learn, all 256 bytes among them.
    longest : int
        Subwords; training pairs with a longer sentence are left out, as are those with an
        empty one.

    Raises
    ------
    ImportError
        When pairs are asked for: if there is no package `tokenizers`.
    ValueError, FileNotFoundError
        When pairs are asked for: if a file is not there or not as it was published, or if
        sources and targets do not belong together.
    """

    vocabulary_kind: ClassVar[type[Subwords]] = Subwords

    data: str | Path = field(metadata={"help": "folder of the data"})
    languages: Literal["en-de", "de-en"] = field(
        default="en-de", metadata={"help": "from which language to which"}
    )
    subwords: int = field(
        default=8000, metadata={"help": "pieces of words to learn, all 256 bytes among them"}
    )
    longest: int = field(
        default=100,
        metadata={"help": "leave out training pairs with a longer sentence, in subwords"},
    )

    def __post_init__(self) -> None:
        self._check_at_least(BYTES + 1, "subwords")
        self._check_at_least(1, "longest")
        if self.languages not in ("en-de", "de-en"):
            raise ValueError(f"languages must be en-de or de-en; got {self.languages!r}")
        self._make_absolute("data")

    @abstractmethod
    def _read(self, part: str, language: str) -> list[str]:
        """The sentences of "train", "validation" or "test", line by line."""

    @cached_property
    def source_vocabulary(self) -> Subwords:
        return Subwords.from_lines(self._arrays["merges"].tolist())

    @property
    def target_vocabulary(self) -> Subwords:
        """The same subwords as the sources'."""
        return self.source_vocabulary

    def train(self, seed: int, epoch: int) -> list[Pair]:
        """All training pairs, whatever the seed and the epoch."""
        return self._training

    @cached_property
    def validation(self) -> list[Pair]:
        return self._pairs("validation")

    @cached_property
    def test(self) -> list[Pair]:
        return self._pairs("test")

    @cached_property
    def _training(self) -> list[Pair]:
        return self._pairs("train", self._usable)

    @cached_property
    def _usable(self) -> NDArray[np.int64]:
        """Which training pairs are neither too long nor empty."""
        lengths = np.stack([side.lengths for side in self._sides("train")])
        usable = np.flatnonzero((lengths > 0).all(0) & (lengths <= self.longest).all(0))
        if not len(usable):
            raise ValueError(f"every training pair is longer than longest, {self.longest}")
        return usable

    def _pairs(self, part: str, which: Iterable[int] | None = None) -> list[Pair]:
        source, target = self._sides(part)
        indices = range(len(source)) if which is None else which
        return [(source[index], target[index]) for index in indices]

    def _sides(self, part: str) -> tuple[Packed, Packed]:
        source, target = (
            Packed.read(self._arrays, f"{part}.{language}")
            for language in self.languages.split("-")
        )
        return source, target

    @cached_property
    def _arrays(self) -> Arrays:
        """The merges, and all sentences as token ids."""
        texts = {name: self._read(*name.split(".")) for name in _NAMES}
        for part in _PARTS:
            _check_lines(part, *(texts[f"{part}.{language}"] for language in LANGUAGES))
        version, lines = tokenizers_package().__version__, map("\n".join, texts.values())
        key = key_of(self.name, _FORMAT, version, self.subwords, texts=lines)
        return cached(key, lambda: _encode(texts, self.subwords))


def _encode(texts: Mapping[str, list[str]], size: int) -> Arrays:
    learned = Subwords.learn(chain.from_iterable(texts[f"train.{x}"] for x in LANGUAGES), size)
    arrays: Arrays = {"merges": np.array(learned.to_lines(), dtype=np.str_)}
    for name, lines in texts.items():
        parts = (Packed.of(learned.read_all(some)) for some in in_batches(lines, _AT_ONCE))
        arrays |= Packed.joined(parts).arrays(name)
    return arrays


def _check_lines(part: str, *sides: list[str]) -> None:
    counts = [len(lines) for lines in sides]
    if len(set(counts)) > 1:
        found = " and ".join(f"{n} in {x}" for n, x in zip(counts, LANGUAGES, strict=True))
        raise ValueError(f"the {part} files do not belong together: they have {found} lines")
    for language, lines in zip(LANGUAGES, sides, strict=True):
        blank = next((i for i, line in enumerate(lines, start=1) if not line.strip()), None)
        if part != "train" and blank is not None:
            raise ValueError(f"line {blank} of the {part} file in {language} is empty")
