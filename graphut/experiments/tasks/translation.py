"""Translation between English and German: Multi30k and WMT14."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass
from functools import cached_property
from html import unescape
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.base import PARTS, Pair, PairTask, in_batches
from graphut.experiments.tasks.cache import Arrays, cached, pack_json, unpack_json
from graphut.experiments.tasks.files import DataSet, lines_of, published_checksums
from graphut.experiments.tasks.presets import model_size, with_baselines
from graphut.experiments.tasks.subwords import (
    BYTES,
    Subwords,
    sacrebleu_package,
    tokenizers_package,
)
from graphut.models.checked_config import option

LANGUAGES = ("en", "de")
_NAMES = [f"{part}.{language}" for part in PARTS for language in LANGUAGES]
_AT_ONCE = 10_000  # lines encoded at once; encodings are much larger than their token ids
_FORMAT = 4

_MULTI30K = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
_MULTI30K_FILES = {"raw": "raw/{}.{}", "tokenized": "tok/{}.lc.norm.tok.{}"}
_MULTI30K_DATA = DataSet(
    "from https://github.com/multi30k/dataset: clone it, gunzip data/task1/raw/*.gz, and name "
    "data/task1",
    published_checksums("multi30k"),
)
_WMT14 = {
    "full": {
        "train": ["commoncrawl.de-en", "europarl-v7.de-en", "news-commentary-v9.de-en"],
        "validation": ["newstest2013"],
        "test": ["newstest2014"],
    },
    "small": {
        "train": ["train10k"],
        "validation": ["newstest2013"],
        "test": ["newstest2014-filtered"],
    },
}
_WMT14_DATA = {
    "full": DataSet(
        "from https://www.statmt.org/wmt14/translation-task.html, all in one folder; newstest2013 "
        "and newstest2014 as text with `sacrebleu -l en-de --echo src` and `--echo ref`, "
        "for `-t wmt13` and `-t wmt14/full`",
        {f"{stem}.{x}": None for part in PARTS for stem in _WMT14["full"][part] for x in LANGUAGES},
    ),
    "small": DataSet(
        "from https://github.com/OpenNMT/OpenNMT, folder data: src-train.txt is train10k.en, "
        "tgt-train.txt is train10k.de; src-val.txt and tgt-val.txt are newstest2013, src-test.txt "
        "and tgt-test.txt newstest2014-filtered",
        published_checksums("wmt14"),
    ),
}

_SHARED = {"share_embeddings": True, "label_smoothing": 0.1}
_SMALL = _SHARED | {"dropout": 0.2, "warmup": 1000, "patience": 5}
# A trial with ten thousand pairs, a third of Multi30k, and longer sentences.
_SMALL_WMT14 = (
    _SMALL
    | model_size(128, 512, 6)
    | {"epochs": 10, "corpus": "small", "subwords": 4000, "longest": 60}
)
# The base size of the paper, without halting (arXiv 1807.03819, section 3.6), for a GPU:
# tensor2tensor's universal_transformer_base, with the maximum learning rate of transformer_base,
# 2 / sqrt(1024 * 8000).
_PAPER = (
    _SHARED
    | model_size(1024, 4096, 6)
    | {"num_heads": 16, "adaptive": False, "dropout": 0.3, "attention_dropout": 0.1}
    | {"optimizer": "adam", "weight_decay": 0.0, "learning_rate": 7e-4}
)


@dataclass(frozen=True)
class TranslationTask(PairTask):
    """A base class of translation tasks, with subwords shared by both languages.

    The subwords are learned from the training sentences. Training pairs with an empty or a long
    sentence are left out. Loading raises `ImportError` if the package `tokenizers` is missing, and
    `ValueError` if the files of the two languages do not match.
    """

    vocabulary_kind = Subwords
    learner = "translation:TranslationLearner"

    data: str | Path = option(MISSING, "folder of the data")
    languages: Literal["en-de", "de-en"] = option("en-de", "source and target language")
    subwords: int = option(8000, "number of subwords, including the 256 bytes", least=BYTES + 1)
    longest: int = option(
        100,
        "maximum length of a training sentence, in subwords; longer pairs are left out",
        least=1,
    )

    @property
    def _tokenized(self) -> bool:
        """True if the sentences in the files are tokenised already."""
        return False

    @abstractmethod
    def _read(self, part: str, language: str) -> list[str]:
        """Return the sentences of "train", "validation" or "test" in a language."""

    @cached_property
    def source_vocabulary(self) -> Subwords:
        """The vocabulary of subwords, which both languages share."""
        return Subwords(map(tuple, unpack_json(self._arrays["merges"])), self._tokenized)

    def check_files(self) -> None:
        super().check_files()
        tokenizers_package()
        sacrebleu_package()

    def load(self, part: str) -> list[Pair]:
        indices = self._usable if part == "train" else range(len(self._sides(part)[0][1]) - 1)
        return self._pairs(part, indices)

    @cached_property
    def _usable(self) -> NDArray[np.int64]:
        """The indices of the training pairs whose sentences are neither too long nor empty."""
        lengths = np.stack([np.diff(offsets) for _, offsets in self._sides("train")])
        usable = np.flatnonzero((lengths > 0).all(0) & (lengths <= self.longest).all(0))
        if not len(usable):
            raise ValueError(f"all training pairs are longer than {self.longest} (longest)")
        return usable

    def _pairs(self, part: str, indices: Iterable[int]) -> list[Pair]:
        (source, s), (target, t) = self._sides(part)
        return [
            (source[s[i] : s[i + 1]].tolist(), target[t[i] : t[i + 1]].tolist()) for i in indices
        ]

    def _sides(self, part: str) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return, for sources and targets, the token ids of all sentences joined, and offsets."""
        names = [f"{part}.{language}" for language in self.languages.split("-")]
        return [(self._arrays[name], self._arrays[f"{name}.offsets"]) for name in names]

    @cached_property
    def _arrays(self) -> Arrays:
        """Cached arrays: the merges of the byte-pair encoding, and all sentences' token ids."""
        texts = {name: self._read(*name.split(".")) for name in _NAMES}
        for part in PARTS:
            _check_lines(part, *(texts[f"{part}.{language}"] for language in LANGUAGES))
        settings = (self.name, _FORMAT, tokenizers_package().__version__, self.subwords)
        lines = map("\n".join, texts.values())
        return cached(lambda: _encode(texts, self.subwords), *settings, texts=lines)


@dataclass(frozen=True)
class Multi30k(TranslationTask):
    """Multi30k: translation of image captions between English and German.

    Task 1 of arXiv 1605.00459, section 2.1, without the images: 29,000 training and 1014 validation
    pairs, and the 1000 test pairs of 2016. By default BLEU is computed on the raw captions. Most
    published results use lower-case, normalised and tokenised captions: `text="tokenized"`.
    """

    name = "multi30k"
    presets = with_baselines(
        _SMALL | model_size(256, 1024, 6) | {"epochs": 12, "norm": "pre"},
        model_size(128, 512, 6),  # layers of half the width have a quarter of the weights
        _PAPER | {"batch_size": 128, "warmup": 2000, "epochs": 40},
    )

    data: str | Path = option(MISSING, f"folder of Multi30k's task 1, {_MULTI30K_DATA.origin}")
    text: Literal["raw", "tokenized"] = option(
        "raw", "original captions, or lower-case and tokenised ones"
    )

    @property
    def _tokenized(self) -> bool:
        return self.text == "tokenized"

    def _read(self, part: str, language: str) -> list[str]:
        name = _MULTI30K_FILES[self.text].format(_MULTI30K[part], language)
        return lines_of(_MULTI30K_DATA.read(self.data, name))


@dataclass(frozen=True)
class Wmt14(TranslationTask):
    """WMT14: translation of news and proceedings between English and German.

    The translation task of arXiv 1807.03819, section 3.6. The full corpora are plain text without
    known checksums. The small corpus is for trials: 10,000 training pairs, newstest2013 for
    validation, and for the test the 2737 sentences of newstest2014 that were used at WMT14 itself.
    It is tokenised, and its XML escapes are decoded.

    BLEU is computed on the raw text. The paper computes it on tokens with split compounds, which
    is not comparable (arXiv 1804.08771, section 2). Consecutive epochs are consecutive parts of the
    shuffled corpus, which is shuffled again at its end.
    """

    name = "wmt14"
    presets = with_baselines(
        _SMALL_WMT14,
        model_size(64, 256, 6),
        _PAPER
        | {"batch_size": 256, "warmup": 8000, "epochs": 256, "patience": 256, "subwords": 32_000},
    )

    data: str | Path = option(
        MISSING,
        f"folder of WMT14's files; full: {_WMT14_DATA['full'].origin}; "
        f"small: {_WMT14_DATA['small'].origin}",
    )
    corpus: Literal["full", "small"] = option("full", "all corpora, or 10,000 training pairs")
    epoch_size: int = option(100_000, "maximum number of training pairs in an epoch", least=1)

    def train(self, seed: int, epoch: int) -> list[Pair]:
        """Return the next `epoch_size` pairs of the shuffled corpus."""
        total = len(self._usable)
        size = min(self.epoch_size, total)
        number, start = divmod(epoch * size, total)
        rounds = (np.random.default_rng([seed, n]) for n in (number, number + 1))
        order = np.concatenate([random.permutation(self._usable) for random in rounds])
        return self._pairs("train", order[start : start + size])

    @property
    def _data_set(self) -> DataSet:
        return _WMT14_DATA[self.corpus]

    def _read(self, part: str, language: str) -> list[str]:
        lines: list[str] = []
        for stem in _WMT14[self.corpus][part]:
            lines += lines_of(self._data_set.read(self.data, f"{stem}.{language}"))
        return [*map(unescape, lines)] if self.corpus == "small" else lines


def _encode(texts: Mapping[str, list[str]], size: int) -> Arrays:
    learned = Subwords.learn(chain.from_iterable(texts[f"train.{x}"] for x in LANGUAGES), size)
    arrays: Arrays = {"merges": pack_json(learned.merges)}
    for name, lines in texts.items():
        tokens, lengths = [], [0]
        for some in in_batches(lines, _AT_ONCE):
            encoded = learned.read_all(some)
            tokens.append(np.fromiter(chain.from_iterable(encoded), np.int32))
            lengths += map(len, encoded)
        arrays |= {name: np.concatenate(tokens), f"{name}.offsets": np.cumsum(lengths)}
    return arrays


def _check_lines(part: str, *sides: list[str]) -> None:
    counts = [len(lines) for lines in sides]
    if len(set(counts)) > 1:
        listing = " and ".join(f"{n} in {x}" for n, x in zip(counts, LANGUAGES, strict=True))
        raise ValueError(f"the {part} files do not match: they have {listing} lines")
    for language, lines in zip(LANGUAGES, sides, strict=True):
        blank = next((i for i, line in enumerate(lines, start=1) if not line.strip()), None)
        if part != "train" and blank is not None:
            raise ValueError(f"line {blank} of the {part} file in {language} is empty")
