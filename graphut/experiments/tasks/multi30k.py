"""Multi30k: captions of pictures, in English and German."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path

from graphut.experiments.tasks.base import option
from graphut.experiments.tasks.files import DataSet, lines_of
from graphut.experiments.tasks.presets import with_baselines
from graphut.experiments.tasks.translation import (
    PAPER_TRANSLATION,
    SMALL_TRANSLATION,
    TranslationTask,
)

_FILES = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
_CHECKSUMS = {
    "raw/train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "raw/train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "raw/val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "raw/val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "raw/test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "raw/test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
}
_DATA = DataSet(
    "from https://github.com/multi30k/dataset: clone it, gunzip data/task1/raw/*.gz, and name "
    "data/task1",
    _CHECKSUMS,
)


@dataclass(frozen=True)
class Multi30k(TranslationTask):
    """Multi30k: captions of pictures, from English to German or back.

    Task 1 of arXiv 1605.00459, section 2.1, without the pictures: 29,000 training and 1014
    validation pairs, and the 1000 test pairs of 2016. The raw sentences are used, with their
    capitals, and what is translated is scored as it stands: figures for lower-cased or
    tokenised captions are others.

    See `TranslationTask` for the parameters.

    Examples
    --------
    >>> Multi30k("multi30k", languages="de-en").subwords
    8000
    """

    name = "multi30k"
    presets = with_baselines(
        {**SMALL_TRANSLATION, "epochs": 12},
        # Layers of half the width have a quarter of the weights.
        {"d_model": 128, "d_hidden": 512, "max_steps": 6},
        paper={**PAPER_TRANSLATION, "batch_size": 128, "warmup": 2000, "epochs": 40},
    )

    data: str | Path = option(MISSING, f"folder of Multi30k's task 1, {_DATA.origin}")

    def _read(self, part: str, language: str) -> list[str]:
        return lines_of(_DATA.read(self.data, f"raw/{_FILES[part]}.{language}"))
