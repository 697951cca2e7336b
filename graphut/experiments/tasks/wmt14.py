"""WMT14: news and proceedings, in English and German."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from itertools import chain
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import unescape

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.base import Pair, option
from graphut.experiments.tasks.files import DataSet, lines_of
from graphut.experiments.tasks.presets import with_baselines
from graphut.experiments.tasks.translation import (
    LANGUAGES,
    PAPER_TRANSLATION,
    SMALL_TRANSLATION,
    TranslationTask,
)

_FILES = {
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
_NAMES = {
    corpus: [f"{stem}.{x}" for stem in chain.from_iterable(parts.values()) for x in LANGUAGES]
    for corpus, parts in _FILES.items()
}
_CHECKSUMS = """
db668a7d798bddf21d1ab8fcb403efbc724ba01b70472ad30d1e2049fd46e12b
fe1f824a189baa650eec46269e66eef07f7304ba7572598ebbe61c55eeff7d01
a32a3554fb6c1073b7ed8e0e43828e88ff35d2292e13b42503b479f43c69c782
df700a3ffe2b4309af3bdaba9c6385b5e6fe647ac408e36759a136eef43959ed
5fde93388f630f7afd3208f24b4c68d3f992ddb15e0bc2491ee3b4f9ea44845b
d0de86aa401fea9734095fe694ac16f58371d09bcad7d86aef71776cacc80b1d
"""
_DATA = {
    "full": DataSet(
        "from https://www.statmt.org/wmt14/translation-task.html, all in one folder; newstest2013 "
        "and newstest2014 as text with `sacrebleu -l en-de --echo src` and `--echo ref`, "
        "for `-t wmt13` and `-t wmt14/full`",
        dict.fromkeys(_NAMES["full"]),
    ),
    "small": DataSet(
        "from https://github.com/OpenNMT/OpenNMT, folder data: src-train.txt is train10k.en, "
        "tgt-train.txt is train10k.de; src-val.txt and tgt-val.txt are newstest2013, src-test.txt "
        "and tgt-test.txt newstest2014-filtered",
        dict(zip(_NAMES["small"], _CHECKSUMS.split(), strict=True)),
    ),
}
_ESCAPED = {"&apos;": "'", "&quot;": '"', "&#91;": "[", "&#93;": "]", "&#124;": "|"}

# Ten thousand pairs of long sentences, a third of Multi30k's: a trial.
_SMALL = {
    **SMALL_TRANSLATION,
    "d_model": 128,
    "d_hidden": 512,
    "epochs": 10,
    "corpus": "small",
    "subwords": 4000,
    "longest": 60,
}
_PAPER = {
    **PAPER_TRANSLATION,
    "batch_size": 256,
    "warmup": 8000,
    "epochs": 256,
    "patience": 256,
    "subwords": 32_000,
}


@dataclass(frozen=True)
class Wmt14(TranslationTask):
    """WMT14: news and proceedings, from English to German or back.

    The translation task of arXiv 1807.03819, section 3.6. The full corpora are read as plain
    text, and are not checked against checksums. Whoever has only the small files gets a trial:
    10,000 training pairs, newstest2013 to validate on, and the 2737 sentences of newstest2014 of
    the first evaluation; these are tokenised, and their XML escapes are undone.

    BLEU is that of the text as it stands, with its capitals. The paper's is of tokens, with
    compounds split, which is another scale (arXiv 1804.08771, section 2).

    Parameters
    ----------
    corpus : str
        "full" or "small".
    epoch_size : int
        Training pairs of an epoch. Epochs go through the corpus, in an order that the seed
        draws, and then again in another.

    See `TranslationTask` for the others.

    Examples
    --------
    >>> Wmt14("wmt14", corpus="small").epoch_size
    100000
    """

    name = "wmt14"
    presets = with_baselines(_SMALL, {"d_model": 64, "d_hidden": 256, "max_steps": 6}, _PAPER)

    data: str | Path = option(
        MISSING,
        f"folder of WMT14's files; full: {_DATA['full'].origin}; small: {_DATA['small'].origin}",
    )
    corpus: Literal["full", "small"] = option(
        "full", "all of it, or 10,000 training pairs for a trial"
    )
    epoch_size: int = option(100_000, "training pairs in an epoch, unless there are fewer", least=1)

    def train(self, seed: int, epoch: int) -> list[Pair]:
        """Return the next `epoch_size` pairs of the corpus; all of them, if there are no more."""
        total = len(self._usable)
        size = min(self.epoch_size, total)
        first, behind = epoch * size, (epoch + 1) * size
        rounds = range(first // total, -(-behind // total))
        order = np.concatenate([self._order(seed, number) for number in rounds])
        start = first - rounds[0] * total
        return self._pairs("train", order[start : start + size])

    @property
    def unchecked_files(self) -> Mapping[str, Path]:
        """The files of the full corpora, which have no known checksums."""
        return _DATA[self.corpus].unchecked(self.data)

    def _order(self, seed: int, number: int) -> NDArray[np.int64]:
        return np.random.default_rng([seed, number]).permutation(self._usable)

    def _read(self, part: str, language: str) -> list[str]:
        lines: list[str] = []
        for stem in _FILES[self.corpus][part]:
            lines += lines_of(_DATA[self.corpus].read(self.data, f"{stem}.{language}"))
        return [unescape(x, _ESCAPED) for x in lines] if self.corpus == "small" else lines
