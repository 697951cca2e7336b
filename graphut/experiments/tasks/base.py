"""What a task is, and its kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from graphut.experiments.tasks.vocabulary import Vocabulary

T = TypeVar("T")

Pair = tuple[list[int], list[int]]
"""Source and target, as token ids without `<bos>` and `<eos>`."""


class Text(NamedTuple):
    """A text whose tokens are to be predicted, each from those before it.

    Parameters
    ----------
    tokens : list of int
        Token ids; `<eos>` is the last of them where the text ends there, and is not a mere window
        out of a longer one.
    context : int
        So many of them, from the first, are given: they are not counted when a model is judged.
    group : str
        The part of its set that it is reported with, such as "3 attractors".
    """

    tokens: list[int]
    context: int = 0
    group: str = ""


class Question(NamedTuple):
    """A question about facts.

    Parameters
    ----------
    facts : list of list of int
        Token ids of each sentence, in order.
    question : list of int
        Token ids.
    answer : int
        A class: which of the symbols of `QuestionTask.answers`, from 0.
    supporting : tuple of int
        Which facts the answer follows from, as indices into `facts`.
    group : str
        The part of its set that it is reported with, such as "qa3".
    """

    facts: list[list[int]]
    question: list[int]
    answer: int
    supporting: tuple[int, ...] = ()
    group: str = ""


class Passage(NamedTuple):
    """A passage whose next word is asked for.

    Parameters
    ----------
    context : list of int
        Token ids.
    answer : int
        A token id, which need not be in the context.
    """

    context: list[int]
    answer: int


@dataclass(frozen=True)
class Task(ABC):
    """Examples to learn from, and to be judged by.

    A task is a frozen dataclass; its fields are its options. What it hands out is a
    function of those and of the arguments alone, never of global random state. What an
    example is, a task's kind says: `PairTask`, `TextTask`, `QuestionTask`, `PassageTask`.

    Attributes
    ----------
    name : str
        What the command line calls it.
    vocabulary_kind : type of Vocabulary
        The class of its vocabularies.
    own_files : tuple of str
        Options that name files of the user's own.
    """

    name: ClassVar[str]
    vocabulary_kind: ClassVar[type[Vocabulary]] = Vocabulary
    own_files: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """What its token ids mean, by what they are of, such as "source" and "target"."""

    @abstractmethod
    def train(self, seed: int, epoch: int) -> list[Any]:
        """The training examples of an epoch; every epoch has equally many."""

    @property
    @abstractmethod
    def validation(self) -> list[Any]:
        """Examples to choose a model by."""

    @property
    @abstractmethod
    def test(self) -> list[Any]:
        """Examples to judge the chosen model by."""

    @property
    def test_sets(self) -> Mapping[str, list[Any]]:
        """All sets to judge the chosen model by, each by its name: `test`, and harder ones."""
        return {"test": self.test}

    @property
    def unchecked_files(self) -> Mapping[str, Path]:
        """What it reads and nobody else knows a checksum of, by the option that names it, or, of a
        data set, by the option and the file's name: `data/train.txt`."""
        paths = {option: getattr(self, option) for option in self.own_files}
        return {option: Path(path) for option, path in paths.items() if path is not None}

    def _make_absolute(self, *names: str) -> None:
        """Of options that are paths: the task is the same one wherever its run is resumed."""
        for name in names:
            if (path := getattr(self, name)) is not None:
                object.__setattr__(self, name, str(Path(path).absolute()))

    def _check_at_least(self, least: int, *names: str) -> None:
        for name in names:
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")


@dataclass(frozen=True)
class PairTask(Task):
    """Pairs of sequences, the second of which answers the first: each a `Pair`."""

    @property
    @abstractmethod
    def source_vocabulary(self) -> Vocabulary:
        """Symbols of the sources."""

    @property
    @abstractmethod
    def target_vocabulary(self) -> Vocabulary:
        """Symbols of the targets."""

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {"source": self.source_vocabulary, "target": self.target_vocabulary}


@dataclass(frozen=True)
class TextTask(Task):
    """Texts whose next token is to be predicted: each a `Text`."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """Symbols of the texts."""

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {"text": self.vocabulary}


@dataclass(frozen=True)
class QuestionTask(Task):
    """Questions about facts, whose answer is a class: each a `Question`."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """Words of facts and questions."""

    @property
    @abstractmethod
    def answers(self) -> Vocabulary:
        """The classes, each a symbol."""

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {"text": self.vocabulary, "answer": self.answers}


@dataclass(frozen=True)
class PassageTask(Task):
    """Passages, in which a word answers: each a `Passage`."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """Words of the passages, and answers."""

    @property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        return {"text": self.vocabulary}


def in_batches(examples: Sequence[T], size: int) -> Iterator[list[T]]:
    """The examples in order, `size` at a time; the last batch may be smaller.

    Examples
    --------
    >>> list(in_batches([5, 6, 7], 2))
    [[5, 6], [7]]
    """
    for start in range(0, len(examples), size):
        yield list(examples[start : start + size])
