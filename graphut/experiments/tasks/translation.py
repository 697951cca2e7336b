"""Translation between English and German, in subwords of both: Multi30k and WMT14."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import unescape

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.base import PARTS, Pair, PairTask, in_batches
from graphut.experiments.tasks.cache import Arrays, cached, pack_json, unpack_json
from graphut.experiments.tasks.files import DataSet, lines_of, published_checksums
from graphut.experiments.tasks.presets import model_size, with_baselines
from graphut.experiments.tasks.subwords import BYTES, Subwords, tokenizers_package
from graphut.models.checked_config import option

LANGUAGES = ("en", "de")
_NAMES = [f"{part}.{language}" for part in PARTS for language in LANGUAGES]
_AT_ONCE = 10_000  # lines: what is found of each is much larger than its token ids
_FORMAT = 4

_MULTI30K = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
_MULTI30K_ORIGIN = (
    "from https://github.com/multi30k/dataset: clone it, gunzip data/task1/raw/*.gz, and name "
    "data/task1"
)
_MULTI30K_FILES = {"raw": "raw/{}.{}", "tokenized": "tok/{}.lc.norm.tok.{}"}
_MULTI30K_DATA = {
    text: DataSet(
        _MULTI30K_ORIGIN,
        {
            name: checksum
            for name, checksum in published_checksums("multi30k").items()
            if name.startswith(file.partition("{")[0])  # of its folder
        },
    )
    for text, file in _MULTI30K_FILES.items()
}
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
_ESCAPED = {"&apos;": "'", "&quot;": '"', "&#91;": "[", "&#93;": "]", "&#124;": "|"}

_SHARED = {"share_embeddings": True, "label_smoothing": 0.1}
_SMALL = _SHARED | {"dropout": 0.2, "warmup": 1000, "patience": 5}
# Ten thousand pairs of long sentences, a third of Multi30k's: a trial.
_SMALL_WMT14 = (
    _SMALL
    | model_size(128, 512, 6)
    | {"epochs": 10, "corpus": "small", "subwords": 4000, "longest": 60}
)
# The paper's base size, which does not halt (arXiv 1807.03819, section 3.6): for a GPU.
# tensor2tensor's universal_transformer_base, and of transformer_base the largest learning rate:
# 2 / sqrt(1024 * 8000).
_PAPER = (
    _SHARED
    | model_size(1024, 4096, 6)
    | {"num_heads": 16, "adaptive": False, "dropout": 0.3, "attention_dropout": 0.1}
    | {"optimizer": "adam", "weight_decay": 0.0, "learning_rate": 7e-4}
)


@dataclass(frozen=True)
class TranslationTask(PairTask):
    """Sentences to translate, as subwords that both languages share.

    The subwords are learned from the training sentences alone. Sentences in a batch are of any
    length: nothing is padded, so that they need not be grouped by it. Training pairs with an empty
    sentence are left out, too. When pairs are asked for, `ImportError` is raised if there is no
    package `tokenizers`, and `ValueError` if sources and targets do not belong together.
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

    @property
    def _tokenized(self) -> bool:
        """True if spaces in the sentences are between tokens."""
        return False

    @abstractmethod
    def _read(self, part: str, language: str) -> list[str]:
        """Return the sentences of "train", "validation" or "test", line by line."""

    @cached_property
    def source_vocabulary(self) -> Subwords:
        """The subwords of both languages."""
        return Subwords(map(tuple, unpack_json(self._arrays["merges"])), self._tokenized)

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
        settings = (self.name, _FORMAT, tokenizers_package().__version__, self.subwords)
        lines = map("\n".join, texts.values())
        return cached(lambda: _encode(texts, self.subwords), *settings, texts=lines)


@dataclass(frozen=True)
class Multi30k(TranslationTask):
    """Multi30k: captions of pictures, from English to German or back.

    Task 1 of arXiv 1605.00459, section 2.1, without the pictures: 29,000 training and 1014
    validation pairs, and the 1000 test pairs of 2016. What is translated is scored as it stands.
    Published figures are mostly those of the captions in small letters, normalised and split into
    tokens: `text="tokenized"` takes these files, and counts as those figures are counted.
    """

    name = "multi30k"
    presets = with_baselines(
        _SMALL | model_size(256, 1024, 6) | {"epochs": 12, "norm": "pre"},
        model_size(128, 512, 6),  # layers of half the width have a quarter of the weights
        _PAPER | {"batch_size": 128, "warmup": 2000, "epochs": 40},
    )

    data: str | Path = option(MISSING, f"folder of Multi30k's task 1, {_MULTI30K_ORIGIN}")
    text: Literal["raw", "tokenized"] = option(
        "raw", "the captions as they were written, or in small letters and split into tokens"
    )

    @property
    def _tokenized(self) -> bool:
        return self.text == "tokenized"

    def _read(self, part: str, language: str) -> list[str]:
        name = _MULTI30K_FILES[self.text].format(_MULTI30K[part], language)
        return lines_of(_MULTI30K_DATA[self.text].read(self.data, name))


@dataclass(frozen=True)
class Wmt14(TranslationTask):
    """WMT14: news and proceedings, from English to German or back.

    The translation task of arXiv 1807.03819, section 3.6. The full corpora are read as plain
    text, and are not checked against checksums. Whoever has only the small files gets a trial:
    10,000 training pairs, newstest2013 to validate on, and the 2737 sentences of newstest2014 of
    the first evaluation; these are tokenised, and their XML escapes are undone.

    BLEU is that of the text as it stands, with its capitals. The paper's is of tokens, with
    compounds split, which is another scale (arXiv 1804.08771, section 2). Epochs go through the
    corpus, in an order that the seed draws, and then again in another.
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
    corpus: Literal["full", "small"] = option(
        "full", "all of it, or 10,000 training pairs for a trial"
    )
    epoch_size: int = option(100_000, "training pairs in an epoch, unless there are fewer", least=1)

    def train(self, seed: int, epoch: int) -> list[Pair]:
        """Return the next `epoch_size` pairs of the corpus; all of them, if there are no more."""
        total = len(self._usable)
        size = min(self.epoch_size, total)
        number, start = divmod(epoch * size, total)
        rounds = (np.random.default_rng([seed, n]) for n in (number, number + 1))
        order = np.concatenate([random.permutation(self._usable) for random in rounds])
        return self._pairs("train", order[start : start + size])

    @property
    def unchecked_files(self) -> Mapping[str, Path]:
        """The files of the full corpora, which have no known checksums."""
        return _WMT14_DATA[self.corpus].unchecked(self.data)

    def _read(self, part: str, language: str) -> list[str]:
        lines: list[str] = []
        for stem in _WMT14[self.corpus][part]:
            lines += lines_of(_WMT14_DATA[self.corpus].read(self.data, f"{stem}.{language}"))
        return [unescape(x, _ESCAPED) for x in lines] if self.corpus == "small" else lines


def _encode(texts: Mapping[str, list[str]], size: int) -> Arrays:
    learned = Subwords.learn(chain.from_iterable(texts[f"train.{x}"] for x in LANGUAGES), size)
    arrays: Arrays = {"merges": pack_json(learned.merges)}
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
