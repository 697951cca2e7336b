"""The base classes of tasks, and the examples that each kind of task hands out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from graphut.experiments.tasks.vocabulary import Vocabulary
from graphut.models.config import ModelConfig

T = TypeVar("T")
PARTS = ("train", "validation", "test")

Vocabularies = Mapping[str, Vocabulary]
"""Vocabularies by the sequences that they are for, such as "source" and "target"."""

Pair = tuple[list[int], list[int]]
"""Source and target, as token ids without `<bos>` and `<eos>`."""


class Text(NamedTuple):
    """A text whose tokens are to be predicted, each from those before it."""

    tokens: list[int]  # ids; the last one is `<eos>` if the text ends there: a window has none
    context: int = 0  # tokens at the start that are given: they do not count in an evaluation
    group: str = ""  # the part of its set that it is reported with, such as "3 attractors"


class Question(NamedTuple):
    """A question about facts."""

    facts: list[list[int]]  # the token ids of each sentence, in order
    question: list[int]  # token ids
    answer: int  # a class: an index into the symbols of `QuestionTask.answers`
    supporting: tuple[int, ...] = ()  # indices of the facts that the answer follows from
    group: str = ""  # the part of its set that it is reported with, such as "qa3"


class Passage(NamedTuple):
    """A passage whose next word is asked for."""

    context: list[int]  # token ids
    answer: int  # a token id, which need not be in the context


class LabelledGraph(NamedTuple):
    """A graph with right answers at its nodes, at its edges, or for the whole."""

    # (2, E), sources, and under them destinations. News goes from a source to a destination.
    edges: NDArray[np.int64]
    # (N,) int64, the kind of each node: an index into the symbols of `GraphTask.node_kinds`. Or
    # (N, F) float32, features.
    nodes: NDArray[Any]
    # At nodes (N,): a class each, an index into the symbols of `GraphTask.answers`, or -1 for a
    # node that is not asked. For the graph (1,): a class. At edges (E,): 1 for each in-edge of a
    # node that is a right answer of this node, and else 0.
    labels: NDArray[np.int64]
    # (N,), over how many edges the news must come that each node needs to be sure of its answer
    # (of a sudoku: after how many rounds of deduction it follows); -1 where that is not known.
    depth: NDArray[np.int64] | None = None
    positions: NDArray[np.int64] | None = None  # (N, k), coordinates of each node
    group: str = ""  # the part of its set that it is reported with, such as "near"


@dataclass(frozen=True)
class Task(ABC):
    """Examples to learn from, and to be judged by.

    A task is a frozen dataclass; its fields are its options. The examples are a function of those
    and of the arguments alone, never of global random state. The kind of a task says what an
    example is: `PairTask`, `TextTask`, `QuestionTask`, `PassageTask`, `GraphTask`. A task overrides
    `load`, and also `train` if each epoch has other examples.

    Options that are paths become absolute, so that a run can be resumed from anywhere. Raise
    `ValueError` if an option is smaller than its `least`, or is not one of the values of its
    `Literal`; and, when examples are asked for, `ValueError` or `FileNotFoundError` if a file is
    not there, or not as it was published.
    """

    name: ClassVar[str]  # on the command line
    # Other defaults for the options of the task, of `TrainingConfig` and of the model, by the name
    # of the preset. The preset `small` is used where none is named.
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    # The properties with the vocabularies that models of its kind of task need, by their names.
    vocabulary_names: ClassVar[Mapping[str, str]] = {}
    own_files: ClassVar[tuple[str, ...]] = ()  # options that name files of the user's own

    def __post_init__(self) -> None:
        """Check the options, and make paths absolute."""
        hints = get_type_hints(type(self))
        for each in fields(self):
            name, value, hint = each.name, getattr(self, each.name), hints[each.name]
            least, choices = each.metadata.get("least"), get_args(hint)
            if value is None:
                continue
            if Path in choices:
                object.__setattr__(self, name, str(Path(value).absolute()))
            elif get_origin(hint) is Literal and value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")
            elif least is not None and not value >= least:
                raise ValueError(f"{name} must be at least {least}, got {value}")

    @property
    def vocabulary_kind(self) -> type[Vocabulary]:
        """The class of its vocabularies."""
        return Vocabulary

    @property
    def vocabularies(self) -> Vocabularies:
        """The vocabularies of the token ids, by the sequences that they are for."""
        return {name: getattr(self, own) for name, own in self.vocabulary_names.items()}

    def load(self, part: str) -> list[Any]:
        """Return the examples of "train", "validation" or "test"; each part is loaded once."""
        raise NotImplementedError(f"{type(self).__name__} has no examples: override its `load`")

    def train(self, seed: int, epoch: int) -> list[Any]:
        """Return the training examples of an epoch; every epoch has equally many.

        Unless a task overrides this method, they are the same whatever the seed and the epoch.
        """
        return self._train

    @cached_property
    def _train(self) -> list[Any]:
        return self.load("train")

    @cached_property
    def validation(self) -> list[Any]:
        """Examples to choose a model by."""
        return self.load("validation")

    @cached_property
    def test(self) -> list[Any]:
        """Examples to judge the chosen model by."""
        return self.load("test")

    @property
    def test_sets(self) -> Mapping[str, list[Any]]:
        """All sets to judge the chosen model by, each by its name: `test`, and harder ones."""
        return {"test": self.test}

    def check_lengths(self, config: ModelConfig) -> None:  # noqa: B027
        """Raise `ValueError`, with file and line, if a line of the user's is too long for a model.

        Tasks with such lines override it.
        """

    @property
    def unchecked_files(self) -> Mapping[str, Path]:
        """Files without a known checksum.

        A key is the option that names the file or, for a file of a data set, the option and the
        file's name: `data/train.txt`.
        """
        paths = {name: getattr(self, name) for name in self.own_files}
        return {name: Path(path) for name, path in paths.items() if path is not None}


class DrawnTask(Task):
    """Random examples: in each epoch other ones to train on, and always the same to judge by.

    Tasks that derive from it have options of these two names.
    """

    epoch_size: int
    held_out: int

    @abstractmethod
    def draw(self, count: int, part: str, *stream: int) -> list[Any]:
        """Draw examples of a part: a function of the options and of the arguments."""

    def train(self, seed: int, epoch: int) -> list[Any]:
        """Draw the training examples of an epoch."""
        return self.draw(self.epoch_size, "train", seed, epoch)

    def load(self, part: str) -> list[Any]:
        """Draw the examples of "validation" or "test"."""
        return self.draw(self.held_out, part)


@dataclass(frozen=True)
class PairTask(Task):
    """Pairs of sequences, the second of which answers the first: each a `Pair`."""

    vocabulary_names: ClassVar[Mapping[str, str]] = {
        "source": "source_vocabulary",
        "target": "target_vocabulary",
    }

    @property
    @abstractmethod
    def source_vocabulary(self) -> Vocabulary:
        """Symbols of the sources."""

    @property
    def target_vocabulary(self) -> Vocabulary:
        """Symbols of the targets; those of the sources, unless a task overrides it."""
        return self.source_vocabulary


@dataclass(frozen=True)
class VocabularyTask(Task):
    """Examples whose sequences have one vocabulary; the base of the kinds below."""

    vocabulary_names: ClassVar[Mapping[str, str]] = {"text": "vocabulary"}

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """Symbols of all sequences."""


@dataclass(frozen=True)
class TextTask(VocabularyTask):
    """Texts whose next token is to be predicted: each a `Text`."""

    def read(self, path: str | Path, vocabulary: Vocabulary) -> list[Text]:
        """Return the texts in a user's file, to evaluate a model on.

        Raise `ValueError` if they cannot be read.
        """
        raise ValueError(f"{path}: texts of the task {self.name} cannot be read from a file")


@dataclass(frozen=True)
class PassageTask(VocabularyTask):
    """Passages, in which a word answers: each a `Passage`."""


@dataclass(frozen=True)
class QuestionTask(VocabularyTask):
    """Questions about facts, whose answer is a class: each a `Question`."""

    vocabulary_names: ClassVar[Mapping[str, str]] = {"text": "vocabulary", "answer": "answers"}

    @property
    @abstractmethod
    def answers(self) -> Vocabulary:
        """The classes, each a symbol."""

    @property
    def longest_story(self) -> int | None:
        """The number of facts, the last ones of a story, that are kept; None if all are."""
        return None


@dataclass(frozen=True)
class GraphTask(Task):
    """Graphs with answers at nodes, at edges or for the whole: each a `LabelledGraph`."""

    vocabulary_names: ClassVar[Mapping[str, str]] = {"node": "node_kinds", "answer": "answers"}

    @property
    def answer_at(self) -> Literal["node", "edge", "graph"]:
        """The place of the answers; at edges, the answer of a node is one of its in-edges."""
        return "node"

    @property
    def num_feats(self) -> int:
        """The number of features of a node; 0 where nodes have kinds."""
        return 0

    @property
    @abstractmethod
    def node_kinds(self) -> Vocabulary:
        """The kinds of nodes, each a symbol; none where nodes have features."""

    @property
    @abstractmethod
    def answers(self) -> Vocabulary:
        """The classes, each a symbol; none where edges are the answers."""


def in_batches(examples: Sequence[T], size: int) -> Iterator[list[T]]:
    """Yield the examples in order, `size` at a time; the last batch may be smaller.

    Examples
    --------
    >>> list(in_batches([5, 6, 7], 2))
    [[5, 6], [7]]
    """
    for start in range(0, len(examples), size):
        yield list(examples[start : start + size])
