"""LAMBADA, for a language model and as reading comprehension: guess the last word of a passage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from graphut.experiments.tasks import files
from graphut.experiments.tasks.base import Passage, PassageTask, Text, TextTask
from graphut.experiments.tasks.cache import Arrays, cached, pack_json, unpack_json
from graphut.experiments.tasks.presets import LANGUAGE_MODEL, model_size, with_baselines
from graphut.experiments.tasks.splits import hold_out, random_windows
from graphut.experiments.tasks.vocabulary import Words
from graphut.models.checked_config import option

LAMBADA = files.DataSet(
    "from https://zenodo.org/records/2630551: unpack lambada-dataset.tar.gz, and name the folder",
    files.published_checksums("lambada"),
)
_FOLDER = f"folder of the passages, {LAMBADA.origin}"
_NOVELS = f"the publishers' train-novels are to be had {LAMBADA.origin}"
_OWN_PASSAGES = f"passages may be cut out of novels: {_NOVELS}"
_FORMAT = 2
Passages = list[list[str]]

# Most weights are those of words: of the same width, two layers are as large as one step.
_LANGUAGE_MODEL = (
    LANGUAGE_MODEL
    | model_size(128, 512, 6)
    | {"dropout": 0.3, "batch_size": 16, "learning_rate": 2e-3, "epochs": 15, "patience": 3}
)
# Few passages and many words: most weights are embeddings, which need dropout.
_READING = model_size(64, 256, 4) | {
    "positions": "end",
    "dropout": 0.2,
    "epochs": 20,
    "patience": 5,
}


def _read_passages(folder: str | Path, held_out: int | None) -> dict[str, Passages]:
    """Return the passages of each part as words, the last of which is the answer.

    There are 4869 development passages, and 5153 of other novels to test on. If `held_out` is
    given, this many development passages are validated on, and the others are trained on.
    """
    texts = (LAMBADA.read(folder, name) for name in LAMBADA.checksums)
    validation, test = ([line.split() for line in files.lines_of(text)] for text in texts)
    train: Passages = []
    if held_out is not None:
        train, validation = hold_out(validation, held_out, lambda words: " ".join(words).encode())
    return {"train": train, "validation": validation, "test": test}


@dataclass(frozen=True)
class Lambada(TextTask):
    """LAMBADA: passages of novels, whose last word can be guessed from the whole alone.

    The task of arXiv 1606.06031 for a language model (arXiv 1807.03819, section 3.3). The
    protocol: train on 2662 novels, validate on the development passages, and judge on the test
    passages, from other novels. `novels` are the user's own files, not checked against checksums:
    a file of text, or a folder of `.txt` files in folders, with words between white space like
    those of the passages. An epoch is windows at random places of them. The vocabulary is the
    most frequent words of training, which come twice at least.

    Without novels a model trains on the development passages, but for those that are held out to
    validate on. That is not the paper's protocol, and its figures are not to be compared.
    """

    name = "lambada"
    presets = with_baselines(_LANGUAGE_MODEL, {"d_hidden": 128, "max_steps": 2})
    vocabulary_kind = Words
    own_files = ("novels",)

    data: str | Path = option(MISSING, _FOLDER)
    novels: str | Path | None = option(
        None,
        "file or folder of text to train on, such as the publishers' train-novels, "
        "instead of development passages (which is not the paper's protocol)",
    )
    window: int = option(128, "words of a window of the novels", least=2)
    epoch_size: int = option(10_000, "windows of novels in an epoch", least=1)
    held_out: int = option(400, "passages to validate on, where there are no novels", least=1)
    words: int = option(60_000, "words in the vocabulary, at most", least=1)

    @cached_property
    def vocabulary(self) -> Words:
        """The words of the novels, or of the training passages."""
        if self.novels is None:
            return Words.learn(self._passages["train"], least=2, most=self.words)
        return Words(unpack_json(self._novels["words"]))

    def train(self, seed: int, epoch: int) -> list[Text]:
        """Draw windows at random places of the novels, or return the training passages."""
        if self.novels is None:
            return super().train(seed, epoch)
        tokens, count = self._novels["tokens"], self.epoch_size
        return random_windows(tokens, self.window, count, seed=seed, epoch=epoch)

    def load(self, part: str) -> list[Text]:
        """Return the passages of a part."""
        texts = [Text(self.vocabulary.encode(words)) for words in self._passages[part]]
        unknown = self.vocabulary.unknown
        if part != "train" and all(text.tokens[-1] == unknown for text in texts):
            raise ValueError(
                "no last word of the passages is among those that are trained on: they are "
                "tokenized and in lower case"
            )
        return texts

    @cached_property
    def _passages(self) -> dict[str, Passages]:
        return _read_passages(self.data, self.held_out if self.novels is None else None)

    @cached_property
    def _novels(self) -> Arrays:
        """The vocabulary of the novels, and all of their token ids."""
        settings = (self.name, _FORMAT, self.words)
        return cached(self._parse_novels, *settings, texts=self._novel_texts())

    def _parse_novels(self) -> Arrays:
        # One novel at a time: as words, all of them would fill the memory.
        texts = (text.split() for text in self._novel_texts())
        words = Words.learn(texts, least=2, most=self.words)
        parts = [np.array(words.encode(text.split()), np.int32) for text in self._novel_texts()]
        if not any(map(len, parts)):
            raise ValueError(
                f"{self.novels} holds no words: expected a text, or .txt files in a folder"
            )
        return {"words": pack_json(words.symbols), "tokens": np.concatenate(parts)}

    def _novel_texts(self) -> Iterator[str]:
        assert self.novels is not None
        return (files.read_text(file, _NOVELS) for file in files.text_files(self.novels))


@dataclass(frozen=True)
class LambadaReading(PassageTask):
    """LAMBADA as reading comprehension: point at the word that is to come.

    The passages of arXiv 1606.06031, in the setting of arXiv 1610.08431: what comes next is one
    of the words before it. A passage that does not have it cannot be answered: it is not trained
    on, and counts as wrong (892 of the 5153 test passages).

    The protocol: train on passages cut out of novels (1.8 million of them), validate on the
    development passages, and judge on the test passages. `passages` is a file of the user's, with
    words between white space. Without it a model trains on most of the development passages, which
    is not the paper's protocol, as in `Lambada`.

    The vocabulary has all words of the passages that a model is judged by, so that each can be
    pointed at: those that training does not have keep the embeddings that they were drawn with.
    """

    name = "lambada-reading"
    presets = with_baselines(_READING, model_size(64, 64, 2))
    vocabulary_kind = Words
    own_files = ("passages",)

    data: str | Path = option(MISSING, _FOLDER)
    passages: str | Path | None = option(
        None,
        "file of passages to train on, one a line, the last word the answer; instead "
        "of development passages (which is not the paper's protocol)",
    )
    held_out: int = option(400, "passages to validate on, where there is no such file", least=1)
    words: int = option(60_000, "words of training in the vocabulary, at most", least=1)

    @cached_property
    def vocabulary(self) -> Words:
        """The frequent words of training, and all words of validation and test."""
        train, *judged = self._parts.values()
        frequent = Words.learn(train, most=self.words)
        others = set(chain.from_iterable(chain.from_iterable(judged))) - set(frequent.symbols)
        return Words([*frequent.symbols, *sorted(others)])

    def load(self, part: str) -> list[Passage]:
        """Return the passages of a part; of training, those that have their answer."""
        tokens = map(self.vocabulary.encode, self._parts[part])
        passages = [Passage(context, answer) for *context, answer in tokens]
        return [p for p in passages if part != "train" or p.answer in p.context]

    @cached_property
    def _parts(self) -> dict[str, Passages]:
        if self.passages is None:
            return _read_passages(self.data, self.held_out)
        return _read_passages(self.data, None) | {"train": _read_own_passages(self.passages)}


def _read_own_passages(path: str | Path) -> Passages:
    passages = [line.split() for line in files.lines_of(files.read_text(path, _OWN_PASSAGES))]
    for number, passage in enumerate(passages, 1):
        if len(passage) < 2:
            raise ValueError(f"{path}, line {number}: a passage has two words at least")
    if not any(answer in context for *context, answer in passages):
        raise ValueError(f"{path} has no passage with its last word in it before")
    return passages
