"""Translation between English and German: Multi30k."""

from abc import abstractmethod
from dataclasses import MISSING, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

from graphut.experiments.tasks.base import PARTS, Pair, PairTask
from graphut.experiments.tasks.files import cached, lines_of, read_text
from graphut.experiments.tasks.presets import model_size, with_baselines
from graphut.models.checked_config import option
from graphut.subwords import BYTES, Subwords, needed_package, tokenizers_package

sacrebleu_package = partial(needed_package, "sacrebleu", "BLEU needs")
LANGUAGES = ("en", "de")
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
        lines = [line for language in LANGUAGES for line in self._sides("train")[language]]
        settings = ("subwords", tokenizers_package().__version__, self.subwords)
        merges = cached(
            lambda: Subwords.learn(lines, self.subwords).merges,
            *settings,
            texts=["\n".join(lines)],
        )
        return Subwords(map(tuple, merges), self._tokenized)

    def check_files(self) -> None:
        super().check_files()
        for part in PARTS:
            self._sides(part)
        tokenizers_package()
        sacrebleu_package()

    def load(self, part: str) -> list[Pair]:
        sides = (self._sides(part)[language] for language in self.languages.split("-"))
        pairs = [*zip(*map(self.source_vocabulary.read_all, sides), strict=True)]
        if part != "train":
            return pairs
        usable = [pair for pair in pairs if all(0 < len(side) <= self.longest for side in pair)]
        if not usable:
            raise ValueError(f"all training pairs are longer than {self.longest} (longest)")
        return usable

    def _sides(self, part: str) -> dict[str, list[str]]:
        """Return the lines of each language; raise `ValueError` if they do not match."""
        sides = {language: self._read(part, language) for language in LANGUAGES}
        counts = {language: len(lines) for language, lines in sides.items()}
        if len({*counts.values()}) > 1:
            listing = " and ".join(f"{n} in {language}" for language, n in counts.items())
            raise ValueError(f"the {part} files do not match: they have {listing} lines")
        for language, lines in sides.items():
            blank = next((i for i, line in enumerate(lines, start=1) if not line.strip()), None)
            if part != "train" and blank is not None:
                raise ValueError(f"line {blank} of the {part} file in {language} is empty")
        return sides


@dataclass(frozen=True)
class Multi30k(TranslationTask):
    """Multi30k: translation of image captions between English and German.

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
    def _tokenized(self) -> bool:
        return self.text == "tokenized"

    def _read(self, part: str, language: str) -> list[str]:
        name = _MULTI30K_FILES[self.text].format(_MULTI30K[part], language)
        return lines_of(read_text(Path(self.data, name), _MULTI30K_ORIGIN))
