"""LAMBADA as reading comprehension: the word that is to come stands in the passage."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import ClassVar

from graphut.experiments.tasks.base import Passage, PassageTask
from graphut.experiments.tasks.files import lines_of, read_text
from graphut.experiments.tasks.lambada_files import LAMBADA, read_passages, split_development
from graphut.experiments.tasks.words import Words

_PASSAGES = (
    f"passages may be cut out of the publishers' train-novels, which are to be had {LAMBADA.origin}"
)


@dataclass(frozen=True)
class LambadaReading(PassageTask):
    """LAMBADA as reading comprehension: point at the word that is to come.

    The passages of arXiv 1606.06031, in the setting of arXiv 1610.08431: what comes next is one
    of the words before it. A passage that does not have it cannot be answered: it is not trained
    on, and counts as wrong (892 of the 5153 test passages).

    The protocol: train on passages cut out of novels (1.8 million of them), validate on the
    development passages, and judge on the test passages. `passages` is a file of the user's.

    Without it a model trains on the development passages, but for those that are held out to
    validate on. That is not the paper's protocol, and its figures are not to be compared.

    The vocabulary has all words of the passages that a model is judged by, so that each can be
    pointed at: those that training does not have keep the embeddings that they were drawn with.

    Parameters
    ----------
    data : str or Path
        The folder with `lambada_test_plain_text.txt` and the development passages in it.
    passages : str or Path, optional
        A file of passages to train on, one a line, their words between white space; the last word
        is the answer.
    held_out : int
        Development passages to validate on, where there is no such file.
    words : int
        Words of the training passages in the vocabulary, at most: the most frequent ones.

    Raises
    ------
    ValueError, FileNotFoundError
        When passages are asked for: if a file is not there, or not as it was published.

    Examples
    --------
    >>> LambadaReading("lambada", held_out=0)
    Traceback (most recent call last):
    ValueError: held_out must be at least 1, got 0
    """

    name: ClassVar[str] = "lambada-reading"
    vocabulary_kind: ClassVar[type[Words]] = Words
    own_files: ClassVar[tuple[str, ...]] = ("passages",)

    data: str | Path = field(metadata={"help": f"folder of the passages, {LAMBADA.origin}"})
    passages: str | Path | None = field(
        default=None,
        metadata={
            "help": "file of passages to train on, one a line, the last word the answer; instead "
            "of development passages (which is not the paper's protocol)"
        },
    )
    held_out: int = field(
        default=400, metadata={"help": "passages to validate on, where there is no such file"}
    )
    words: int = field(
        default=60_000, metadata={"help": "words of training in the vocabulary, at most"}
    )

    def __post_init__(self) -> None:
        self._check_at_least(1, "held_out", "words")
        self._make_absolute("data", "passages")

    @cached_property
    def vocabulary(self) -> Words:
        train, *judged = self._parts
        frequent = Words.learn(train, most=self.words)
        others = set(chain.from_iterable(chain.from_iterable(judged))) - set(frequent.symbols)
        return Words([*frequent.symbols, *sorted(others)])

    def train(self, seed: int, epoch: int) -> list[Passage]:
        """The training passages that have their answer, whatever the seed and the epoch."""
        return self._encoded[0]

    @property
    def validation(self) -> list[Passage]:
        return self._encoded[1]

    @property
    def test(self) -> list[Passage]:
        return self._encoded[2]

    @cached_property
    def _encoded(self) -> tuple[list[Passage], list[Passage], list[Passage]]:
        train, validation, test = ([self._encode(p) for p in part] for part in self._parts)
        return [p for p in train if p.answer in p.context], validation, test

    @cached_property
    def _parts(self) -> tuple[list[list[str]], list[list[str]], list[list[str]]]:
        """Training, validation and test passages."""
        test = read_passages(self.data, "test")
        if self.passages is None:
            return *split_development(self.data, self.held_out), test
        return self._own(self.passages), read_passages(self.data, "development"), test

    def _own(self, path: str | Path) -> list[list[str]]:
        """The user's own passages."""
        passages = [line.split() for line in lines_of(read_text(path, _PASSAGES))]
        for number, passage in enumerate(passages, 1):
            if len(passage) < 2:
                raise ValueError(f"{path}, line {number}: a passage has two words at least")
        if not any(answer in context for *context, answer in passages):
            raise ValueError(f"{path} has no passage with its last word in it before")
        return passages

    def _encode(self, passage: list[str]) -> Passage:
        *context, answer = self.vocabulary.encode(passage)
        return Passage(context, answer)
