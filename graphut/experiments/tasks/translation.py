"""Translation: sentences of one language into another, in subwords of both."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.base import PARTS, Pair, PairTask, in_batches, option
from graphut.experiments.tasks.cache import Arrays, cached, key_of, pack_json, unpack_json
from graphut.experiments.tasks.presets import Preset
from graphut.experiments.tasks.subwords import BYTES, Subwords, tokenizers_package

LANGUAGES = ("en", "de")
_NAMES = [f"{part}.{language}" for part in PARTS for language in LANGUAGES]
_AT_ONCE = 10_000  # lines: what is found of each is much larger than its token ids
_FORMAT = 3

_SHARED: Preset = {"share_embeddings": True, "label_smoothing": 0.1}
SMALL_TRANSLATION: Preset = {
    **_SHARED,
    "d_model": 256,
    "d_hidden": 1024,
    "max_steps": 6,
    "dropout": 0.2,
    "warmup": 1000,
    "patience": 5,
}
# The paper's base size, which does not halt (arXiv 1807.03819, section 3.6): for a GPU.
# tensor2tensor's universal_transformer_base, and of transformer_base the largest learning rate:
# 2 / sqrt(1024 * 8000).
PAPER_TRANSLATION: Preset = {
    **_SHARED,
    "d_model": 1024,
    "d_hidden": 4096,
    "num_heads": 16,
    "max_steps": 6,
    "adaptive": False,
    "dropout": 0.3,
    "attention_dropout": 0.1,
    "optimizer": "adam",
    "weight_decay": 0.0,
    "learning_rate": 7e-4,
}


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

    vocabulary_kind = Subwords

    data: str | Path = option(MISSING, "folder of the data")
    languages: Literal["en-de", "de-en"] = option("en-de", "from which language to which")
    subwords: int = option(
        8000, "pieces of words to learn, all 256 bytes among them", least=BYTES + 1
    )
    longest: int = option(
        100, "leave out training pairs with a longer sentence, in subwords", least=1
    )

    @abstractmethod
    def _read(self, part: str, language: str) -> list[str]:
        """Return the sentences of "train", "validation" or "test", line by line."""

    @cached_property
    def source_vocabulary(self) -> Subwords:
        """The subwords of both languages."""
        return Subwords.from_lines(unpack_json(self._arrays["merges"]))

    def load(self, part: str) -> list[Pair]:
        """Return the pairs of a part; of training, those that are neither too long nor empty."""
        return self._pairs(part, self._usable if part == "train" else None)

    @cached_property
    def _usable(self) -> NDArray[np.int64]:
        """The indices of training pairs that are neither too long nor empty."""
        lengths = np.stack([np.diff(offsets) for _, offsets in self._sides("train")])
        usable = np.flatnonzero((lengths > 0).all(0) & (lengths <= self.longest).all(0))
        if not len(usable):
            raise ValueError(f"every training pair is longer than longest, {self.longest}")
        return usable

    def _pairs(self, part: str, which: Iterable[int] | None = None) -> list[Pair]:
        (source, s), (target, t) = self._sides(part)
        indices = range(len(s) - 1) if which is None else which
        return [
            (source[s[i] : s[i + 1]].tolist(), target[t[i] : t[i + 1]].tolist()) for i in indices
        ]

    def _sides(self, part: str) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return the tokens of all sources and where each one begins; the same of all targets."""
        names = [f"{part}.{language}" for language in self.languages.split("-")]
        return [(self._arrays[name], self._arrays[f"{name}.offsets"]) for name in names]

    @cached_property
    def _arrays(self) -> Arrays:
        """The merges, and all sentences as token ids."""
        texts = {name: self._read(*name.split(".")) for name in _NAMES}
        for part in PARTS:
            _check_lines(part, *(texts[f"{part}.{language}"] for language in LANGUAGES))
        version, lines = tokenizers_package().__version__, map("\n".join, texts.values())
        key = key_of(self.name, _FORMAT, version, self.subwords, texts=lines)
        return cached(key, lambda: _encode(texts, self.subwords))


def _encode(texts: Mapping[str, list[str]], size: int) -> Arrays:
    learned = Subwords.learn(chain.from_iterable(texts[f"train.{x}"] for x in LANGUAGES), size)
    arrays: Arrays = {"merges": pack_json(learned.to_lines())}
    for name, lines in texts.items():
        tokens, lengths = [], [0]
        for some in in_batches(lines, _AT_ONCE):
            found = learned.read_all(some)
            tokens.append(np.fromiter(chain.from_iterable(found), np.int32))
            lengths += map(len, found)
        arrays |= {name: np.concatenate(tokens), f"{name}.offsets": np.cumsum(lengths)}
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
