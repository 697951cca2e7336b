"""Translation from English to German: Multi30k."""

from abc import abstractmethod
from dataclasses import MISSING, dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Literal

from graphut.experiments.tasks.base import Pair, PairTask
from graphut.experiments.tasks.files import lines_of, read_text
from graphut.experiments.tasks.presets import model_size, with_baselines
from graphut.models.checked_config import option
from graphut.subwords import BYTES, Subwords, needed_package

sacrebleu_package = partial(needed_package, "sacrebleu", "BLEU needs")
_MULTI30K = {"train": "train", "validation": "val", "test": "test_2016_flickr"}
_MULTI30K_FILES = {"raw": "raw/{}.{}", "tokenized": "tok/{}.lc.norm.tok.{}"}
_MULTI30K_ORIGIN = (
    "get the data from https://github.com/multi30k/dataset: clone it, gunzip data/task1/raw/*.gz, "
    "and name data/task1"
)
SMALL = {"share_embeddings": True, "label_smoothing": 0.1, "dropout": 0.2}
SMALL |= {"warmup": 1000, "patience": 5}


@dataclass(frozen=True)
class TranslationTask(PairTask):
    """A base class of translation tasks, with subwords shared by both languages.

    The subwords are learned from the training sentences. Training pairs with an empty or a long
    sentence are left out. Loading raises `ImportError` if the package `tokenizers` is missing, and
    `ValueError` if the files of the two languages do not match.
    """

    learner = "sequences:TranslationLearner"

    data: str | Path = option(MISSING, "folder of the data")
    subwords: int = option(8000, "number of subwords, including the 256 bytes", least=BYTES + 1)
    longest: int = option(
        100,
        "maximum length of a training sentence, in subwords; longer pairs are left out",
        least=1,
    )

    @property
    def is_tokenized(self) -> bool:
        """True if the sentences in the files are tokenised already."""
        return False

    @abstractmethod
    def read_sentences(self, part: str, language: str) -> list[str]:
        """Return the sentences of "train", "validation" or "test" in a language, "en" or "de"."""

    @cached_property
    def source_vocabulary(self) -> Subwords:
        """The vocabulary of subwords, which both languages share."""
        return Subwords.learn(chain(*self.sides("train")), self.subwords, self.is_tokenized)

    def load(self, part: str) -> list[Pair]:
        sacrebleu_package()  # the first evaluation would miss it an epoch later
        pairs = [*zip(*map(self.source_vocabulary.read_all, self.sides(part)), strict=True)]
        if part != "train":
            return pairs
        return [pair for pair in pairs if all(0 < len(side) <= self.longest for side in pair)]

    def sides(self, part: str) -> tuple[list[str], list[str]]:
        """Return sources and targets; raise `ValueError` if their numbers differ."""
        sources, targets = (self.read_sentences(part, language) for language in ("en", "de"))
        if len(sources) != len(targets):
            raise ValueError(
                f"the {part} files do not match: {len(sources)} lines in en, {len(targets)} in de"
            )
        return sources, targets


@dataclass(frozen=True)
class Multi30k(TranslationTask):
    """Multi30k: translation of image captions from English to German.

    Task 1 of arXiv 1605.00459, section 2.1, without the images: 29,000 training and 1014 validation
    pairs, and the 1000 test pairs of 2016. By default BLEU is computed on the raw captions. Most
    published results use lower-case, normalised and tokenised captions: `text="tokenized"`.
    """

    name = "multi30k"
    presets = with_baselines(
        SMALL | model_size(256, 1024, 6) | {"epochs": 12, "norm": "pre"},
        model_size(128, 512, 6),  # layers of half the width have a quarter of the weights
    )

    data: str | Path = option(MISSING, f"folder of Multi30k's task 1; {_MULTI30K_ORIGIN}")
    text: Literal["raw", "tokenized"] = option(
        "raw", "original captions, or lower-case and tokenised ones"
    )

    @property
    def is_tokenized(self) -> bool:
        return self.text == "tokenized"

    def read_sentences(self, part: str, language: str) -> list[str]:
        name = _MULTI30K_FILES[self.text].format(_MULTI30K[part], language)
        return lines_of(read_text(Path(self.data, name), _MULTI30K_ORIGIN))
