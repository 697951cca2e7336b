"""WMT14: translation of news from English to German.

graphut train examples/tasks/wmt14.py --data wmt14-en-de-small --corpus small --out runs/wmt14
"""

from dataclasses import MISSING, dataclass
from functools import cached_property
from html import unescape
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks import Pair, option
from graphut.experiments.tasks.base import in_batches
from graphut.experiments.tasks.files import lines_of, read_text
from graphut.experiments.tasks.presets import model_size, with_baselines
from graphut.experiments.tasks.translation import SMALL, TranslationTask

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
_ORIGINS = {
    "full": "get the data from https://www.statmt.org/wmt14/translation-task.html, all in one "
    "folder; newstest2013 and newstest2014 as text with `sacrebleu -l en-de --echo src` and "
    "`--echo ref`, for `-t wmt13` and `-t wmt14/full`",
    "small": "get the data from https://github.com/OpenNMT/OpenNMT, folder data: src-train.txt is "
    "train10k.en, tgt-train.txt is train10k.de; src-val.txt and tgt-val.txt are newstest2013, "
    "src-test.txt and tgt-test.txt newstest2014-filtered",
}

# A trial with ten thousand pairs, a third of Multi30k, and longer sentences.
_SMALL = (
    SMALL
    | model_size(128, 512, 6)
    | {"epochs": 10, "corpus": "small", "subwords": 4000, "longest": 60}
)


@dataclass(frozen=True)
class Wmt14(TranslationTask):
    """WMT14: translation of news and proceedings from English to German.

    The translation task of arXiv 1807.03819, section 3.6. The small corpus is for trials: 10,000
    training pairs, newstest2013 for validation, and for the test the 2737 sentences of newstest2014
    that were used at WMT14 itself. It is tokenised, and its XML escapes are decoded.

    BLEU is computed on the raw text. The paper computes it on tokens with split compounds, which
    is not comparable (arXiv 1804.08771, section 2). Consecutive epochs are consecutive parts of the
    shuffled corpus, which is shuffled again at its end.
    """

    name = "wmt14"
    presets = with_baselines(_SMALL, model_size(64, 256, 6))

    data: str | Path = option(
        MISSING,
        f"folder of WMT14's files; full: {_ORIGINS['full']}; small: {_ORIGINS['small']}",
    )
    corpus: Literal["full", "small"] = option("full", "all corpora, or 10,000 training pairs")
    epoch_size: int = option(100_000, "maximum number of training pairs in an epoch", least=1)

    def train(self, seed: int, epoch: int) -> list[Pair]:
        """Return the next `epoch_size` pairs of the shuffled corpus."""
        (source, s), (target, t) = self._encoded
        lengths = np.stack([np.diff(s), np.diff(t)])
        usable = np.flatnonzero((lengths > 0).all(0) & (lengths <= self.longest).all(0))
        size = min(self.epoch_size, len(usable))
        number, start = divmod(epoch * size, len(usable))
        rounds = (np.random.default_rng([seed, n]) for n in (number, number + 1))
        order = np.concatenate([random.permutation(usable) for random in rounds])
        return [
            (source[s[i] : s[i + 1]].tolist(), target[t[i] : t[i + 1]].tolist())
            for i in order[start : start + size]
        ]

    @cached_property
    def _encoded(self) -> list[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """The token ids of all training sentences, and their offsets: of sources, of targets.

        Lists of four million sentences would not fit in memory.
        """
        sides = []
        for sentences in self.sides("train"):
            tokens, lengths = [], [0]
            for lines in in_batches(sentences, 10_000):
                encoded = self.source_vocabulary.read_all(lines)
                tokens.append(np.fromiter(chain.from_iterable(encoded), np.int32))
                lengths += map(len, encoded)
            sides.append((np.concatenate(tokens), np.cumsum(lengths)))
        return sides

    def read_sentences(self, part: str, language: str) -> list[str]:
        lines: list[str] = []
        for stem in _FILES[self.corpus][part]:
            path = Path(self.data, f"{stem}.{language}")
            lines += lines_of(read_text(path, _ORIGINS[self.corpus]))
        return [*map(unescape, lines)] if self.corpus == "small" else lines
