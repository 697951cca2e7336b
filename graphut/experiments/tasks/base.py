"""Base classes of tasks, the types of their examples, and functions to split data."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar, get_args, get_type_hints
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from graphut.models.checked_config import CheckedConfig
from graphut.models.config import (
    ModelConfig,
    UniversalGraphTransformerConfig,
    UniversalTransformerConfig,
    UniversalTransformerLMConfig,
)
from graphut.vocabulary import Vocabulary

T = TypeVar("T")
PARTS = ("train", "validation", "test")

Vocabularies = Mapping[str, Vocabulary]
"""Vocabularies by the sequences that they encode, such as "source" and "target"."""

Pair = tuple[list[int], list[int]]
"""Source and target, as token ids without `<bos>` and `<eos>`."""


class Text(NamedTuple):
    """A text for a language model."""

    tokens: list[int]  # token ids; they end with `<eos>` if the text ends there
    context: int = 0  # number of tokens at the start that an evaluation does not score
    group: str = ""  # results are also reported for each group, such as "3 attractors"


class LabelledGraph(NamedTuple):
    """A graph with labels of its nodes, of its edges, or of the whole graph."""

    edges: NDArray[np.int64]  # (2, E), sources and destinations; messages go to the destination
    # (N,) int64 indices into the symbols of `GraphTask.node_kinds`, or (N, F) float32 features
    nodes: NDArray[Any]
    # Of nodes: (N,) classes, indices into the symbols of `GraphTask.answers`; -1 if unlabelled.
    # Of the graph: (1,) class. Of edges: (E,), 1 if the edge is a correct answer of its
    # destination, else 0. With the target "values": (N, K) or (1, K) float32 numbers; NaN if
    # unlabelled.
    labels: NDArray[Any]
    # (N,) distance, in edges, from which a node needs information to know its answer (in a sudoku:
    # the round of deduction in which the answer follows); -1 if unknown
    depth: NDArray[np.int64] | None = None
    positions: NDArray[np.int64] | None = None  # (N, k) coordinates
    edge_weights: NDArray[Any] | None = None  # (E,) positive
    edge_feats: NDArray[Any] | None = None  # (E, F)
    ids: Sequence[Any] | None = None  # (N,) names of the nodes; None for their numbers

    @property
    def has_label(self) -> NDArray[np.bool_]:
        """A 1-D boolean mask, as long as `labels`: True for each label that is known."""
        return self.labels >= 0 if self.labels.ndim == 1 else ~np.isnan(self.labels).any(1)


@dataclass(frozen=True)
class Task(CheckedConfig, ABC):
    """A base class of tasks: examples for training and evaluation.

    A task is a frozen dataclass; its fields are its options. Its examples depend only on the
    options and on the arguments of the methods, never on global random state. Subclasses define
    the type of an example: `PairTask`, `TextTask`, `GraphTask`. A task overrides `load`, and also
    `train` if the training examples differ between epochs.

    Paths in options become absolute, so that a run can be resumed from any folder.

    Raises
    ------
    ValueError
        If an option is below its minimum, or is not a value of its `Literal` type.
    ValueError, FileNotFoundError
        When examples are requested, if a file is missing or cannot be read.
    """

    name: ClassVar[str]  # on the command line
    # Default values for the options of the task, of the training and of the model, by the name of
    # the preset. The default preset is `small`.
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    config_kind: ClassVar[type[ModelConfig]]  # configuration of the models for this kind of task
    # The class that trains and evaluates the models, or "module:class" in
    # `graphut.experiments.training.learners`.
    learner: ClassVar[Any] = None
    # Fields of the configuration that follow from the examples, so they are no options.
    from_data: ClassVar[Sequence[str]] = ("vocab_size",)
    choices: ClassVar[Any] = ()  # metrics by which training can choose the best model
    generates: ClassVar[bool] = False  # whether the models generate text
    searches: ClassVar[bool] = False  # whether an evaluation generates it, by beam search

    def __post_init__(self) -> None:
        """Make paths absolute, and check the options."""
        for name, path in self.paths.items():
            object.__setattr__(self, name, str(Path(path).absolute()))
        super().__post_init__()

    @property
    def vocabularies(self) -> Vocabularies:
        """A dictionary from names, such as "source" and "target", to the vocabularies."""
        return {}

    @property
    def model_sizes(self) -> dict[str, Any]:
        """The fields in `from_data`, as a dictionary; those that are missing keep their default."""
        return {"vocab_size": len(self.vocabularies["text"])}

    def check_choice(self, choice: str) -> None:
        """Raise `ValueError` if training cannot choose the best model by `choice`, a metric."""
        if choice not in ("task", "last", *self.choices):
            others = f", or one of its metrics {', '.join(self.choices)}" * bool(self.choices)
            raise ValueError(
                f"choose_by must be 'task' or 'last' for {self.name}{others}; got {choice!r}"
            )

    def load(self, part: str) -> list[Any]:
        """Return the examples of "train", "validation" or a test set; subclasses override this."""
        raise NotImplementedError(f"{type(self).__name__} has no examples: override its `load`")

    def train(self, seed: int, epoch: int) -> list[Any]:
        """Return the training examples of an epoch; their number is the same in all epochs.

        By default the examples are the same for all seeds and epochs.
        """
        return self._train

    @cached_property
    def _train(self) -> list[Any]:
        return self.load("train")

    @cached_property
    def validation(self) -> list[Any]:
        """The validation examples, which are used to select the best model of a run."""
        return self.load("validation")

    @cached_property
    def test(self) -> list[Any]:
        """The test examples."""
        return self.load("test")

    @property
    def test_sets(self) -> Sequence[str]:
        """The names of the test sets: "test", and for some tasks harder ones."""
        return ("test",)

    @property
    def description(self) -> str:
        """One line about the data that was read from a user's files; empty by default."""
        return ""

    @property
    def paths(self) -> dict[str, str]:
        """The options of type `Path` that are set, as a dictionary from names to paths."""
        kinds = get_type_hints(type(self)).items()
        values = {x: getattr(self, x) for x, kind in kinds if Path in (kind, *get_args(kind))}
        return {name: path for name, path in values.items() if path is not None}


class DrawnTask(Task):
    """A task with random examples: new ones in each epoch, and fixed validation and test sets.

    Subclasses have the options `epoch_size` and `held_out`, the numbers of examples in an epoch and
    in the validation and test sets.
    """

    epoch_size: int
    held_out: int

    @abstractmethod
    def draw(self, count: int, part: str, *stream: int) -> list[Any]:
        """Draw `count` examples of "train", "validation" or "test".

        The examples depend only on options and arguments. `stream` holds more random seeds.
        """

    def train(self, seed: int, epoch: int) -> list[Any]:
        return self.draw(self.epoch_size, "train", seed, epoch)

    def load(self, part: str) -> list[Any]:
        return self.draw(self.held_out, part)


@dataclass(frozen=True)
class PairTask(Task):
    """A base class of sequence-to-sequence tasks; an example is a pair of source and target."""

    config_kind = UniversalTransformerConfig
    learner = "sequences:PairLearner"
    from_data = ("source_vocab", "target_vocab")
    generates = searches = True

    @property
    @abstractmethod
    def source_vocabulary(self) -> Vocabulary:
        """The vocabulary of the source sequences."""

    @property
    def target_vocabulary(self) -> Vocabulary:
        """The vocabulary of the target sequences; by default the source vocabulary."""
        return self.source_vocabulary

    @property
    def vocabularies(self) -> Vocabularies:
        return {"source": self.source_vocabulary, "target": self.target_vocabulary}

    @property
    def model_sizes(self) -> dict[str, Any]:
        return {f"{name}_vocab": len(each) for name, each in self.vocabularies.items()}


@dataclass(frozen=True)
class TextTask(Task):
    """A base class of language modelling tasks, whose examples are `Text`s."""

    config_kind = UniversalTransformerLMConfig
    learner = "texts:TextLearner"
    generates = True
    choices = ("accuracy",)

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of all texts."""

    @property
    def vocabularies(self) -> Vocabularies:
        return {"text": self.vocabulary}

    def read(self, path: str | Path, vocabulary: Vocabulary) -> list[Text]:
        """Read texts from a user's file for an evaluation; by default, raise `ValueError`."""
        raise ValueError(f"{path}: texts of the task {self.name} cannot be read from a file")


@dataclass(frozen=True)
class GraphTask(Task):
    """A base class of tasks that label nodes, edges or graphs; examples are `LabelledGraph`s."""

    config_kind = UniversalGraphTransformerConfig
    learner = "graphs:GraphLearner"
    from_data = (
        "num_kinds", "num_feats", "classes", "answer_at", "answer_kind", "edge_feats",
    )  # fmt: skip

    # What has a label: "node", "graph", or "edge" (a node selects an in-edge).
    answer_at: ClassVar[Any] = "node"
    edge_feats: ClassVar[Any] = 0  # features of an edge
    choices: ClassVar[Any] = ("accuracy", "log_probability")

    @property
    def vocabularies(self) -> Vocabularies:
        return {"node": self.node_kinds, "answer": self.answers}

    @property
    def model_sizes(self) -> dict[str, Any]:
        counts = {"num_kinds": len(self.node_kinds.symbols), "classes": len(self.answers.symbols)}
        return {**counts, "answer_at": self.answer_at, "edge_feats": self.edge_feats}

    @property
    @abstractmethod
    def node_kinds(self) -> Vocabulary:
        """The vocabulary of the kinds (categories) of nodes; empty if nodes have features."""

    def read(self, name: str) -> list[LabelledGraph] | None:
        """Return the graphs in a file, or None (the default) if this task does not read files."""
        return None

    @property
    @abstractmethod
    def answers(self) -> Vocabulary:
        """The vocabulary of the classes; empty if nodes select edges instead of classes."""


def whole_numbers(name: str, text: str, least: int) -> list[int]:
    """Return the whole numbers in the text of an option, such as "4,7" or "4-24".

    Raise `ValueError`, with the `name` of the option, for a number below `least`.

    Examples
    --------
    >>> whole_numbers("tasks", "1,2,18-20", 1)
    [1, 2, 18, 19, 20]
    """
    numbers: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"\s*(\d{1,7})(?:-(\d{1,7}))?\s*", part)
        span = range(int(ends[1]), int(ends[2] or ends[1]) + 1) if ends else range(0)
        if not span or span[0] < least:
            example = f"of {least} or more, as in '{least},{least + 2}-{least + 4}'"
            raise ValueError(f"{name} must be whole numbers {example}; got {text!r}")
        numbers += span
    return numbers


def in_batches(examples: Sequence[T], size: int) -> Iterator[list[T]]:
    """Yield the examples in order, `size` at a time; the last batch may be smaller."""
    for start in range(0, len(examples), size):
        yield list(examples[start : start + size])


def hold_out(
    items: Iterable[T], held_out: int, text: Callable[[T], bytes]
) -> tuple[list[T], list[T]]:
    """Divide items by a hash of `text(item)`; return the remaining and the `held_out` items.

    The order of the items does not change the result.
    """
    ranked = sorted(items, key=lambda item: (crc32(text(item)), text(item)))
    if held_out >= len(ranked):
        raise ValueError(f"held_out must be less than {len(ranked)}, got {held_out}")
    return ranked[held_out:], ranked[:held_out]


def random_windows(
    tokens: NDArray[Any], length: int, count: int, *, seed: int, epoch: int
) -> list[Text]:
    """Draw `count` windows of `length` tokens at random positions of a text, for training.

    If the text is shorter than `length`, each window is the whole text.
    """
    places = max(len(tokens) - length, 0) + 1
    starts = np.random.default_rng([seed, epoch]).integers(places, size=count)
    return [Text(tokens[start : start + length].tolist()) for start in starts]


def strided_windows(tokens: NDArray[Any], length: int) -> list[Text]:
    """Return overlapping windows of a text for evaluation; each token is scored in one window.

    The stride is half a window, and the tokens shared with the previous window are context. So
    each scored token has at least half a window of context, or the whole text before it.
    """
    stride = max(length // 2, 1)
    starts = range(0, max(len(tokens) - length, 0) + stride, stride)
    overlap = length - stride
    windows = [
        Text(tokens[start : start + length].tolist(), overlap if start else 0) for start in starts
    ]
    return [window for window in windows if len(window.tokens) > window.context]
