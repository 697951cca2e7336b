"""What the training loop and the command line need to know of a kind of tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from torch import Tensor

from graphut.experiments.tasks import Task, Vocabulary
from graphut.models.base import AdaptiveModel
from graphut.models.config import ModelConfig
from graphut.nn import Ponder

if TYPE_CHECKING:
    from typing_extensions import Self

Example = TypeVar("Example")
TaskT = TypeVar("TaskT", bound=Task)
ModelT = TypeVar("ModelT", bound=AdaptiveModel)


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """What a model makes of a batch.

    Parameters
    ----------
    prediction : Tensor
        A scalar: the mean over labels of the cross-entropy, in nats.
    right : Tensor
        A scalar: how many labels are the likeliest.
    labels : int
        How many labels there are.
    ponders : mapping of str to Ponder
        How long the nodes of each part pondered, such as "encoder" and "decoder".
    """

    prediction: Tensor
    right: Tensor
    labels: int
    ponders: Mapping[str, Ponder]

    def loss(self, ponder_weight: float) -> Tensor:
        """What is minimised: the prediction's price and that of pondering (arXiv 1603.08983,
        Eq. 13), each part's the mean over its nodes."""
        return self.prediction + ponder_weight * sum(p.cost for p in self.ponders.values())


class Evaluation(ABC):
    """How good a model is on a set of examples; the better one is the greater.

    A frozen dataclass of numbers derives from it.
    """

    @property
    @abstractmethod
    def rank(self) -> tuple[float, ...]:
        """What decides which of two is the better one: the first number in which they differ."""

    @abstractmethod
    def __str__(self) -> str:
        """One line."""

    @abstractmethod
    def reached(self, target: float) -> bool:
        """Whether it is as good as `TrainingConfig.target_accuracy` asks for."""

    def __lt__(self, other: Evaluation) -> bool:
        return self.rank < other.rank

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """What `to_dict` has written."""
        return cls(**state)


class Said(NamedTuple):
    """What a model says of a text.

    Parameters
    ----------
    answer : str
        That alone.
    shown : str
        The text and the answer, with the steps of each.
    """

    answer: str
    shown: str


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """Nothing to choose in generating."""


class Learner(ABC, Generic[Example, TaskT, ModelT]):
    """How the tasks of a kind are learned, judged and shown.

    Attributes
    ----------
    task_kind : type of Task
        Which tasks: those that derive from it, and from no other learner's that derives from it.
    model_kind : type of AdaptiveModel
        Which model learns them.
    evaluation_kind : type of Evaluation
        How it is judged.
    generation_kind : type
        A dataclass: the options of `generate`, each with a "help" in its metadata.
    judged_with : sequence of str
        Those of them that `record` takes too.
    from_task : sequence of str
        Fields of the model's configuration that the task decides: see `sizes`.
    examples : str
        What examples are called.
    """

    task_kind: ClassVar[type[Task]]
    model_kind: ClassVar[type[AdaptiveModel]]
    evaluation_kind: ClassVar[type[Evaluation]]
    generation_kind: ClassVar[type[Any]] = NoOptions
    judged_with: ClassVar[Sequence[str]] = ()
    from_task: ClassVar[Sequence[str]]
    examples: ClassVar[str]

    @property
    def config_kind(self) -> type[ModelConfig]:
        """What the model's configuration is."""
        return self.model_kind.config_class

    @abstractmethod
    def sizes(self, task: TaskT) -> dict[str, int]:
        """The values of `from_task` for a task."""

    @abstractmethod
    def outcome(self, model: ModelT, batch: list[Example], label_smoothing: float) -> Outcome:
        """What the model makes of a batch of training examples."""

    @abstractmethod
    def record(
        self,
        model: ModelT,
        vocabularies: Mapping[str, Vocabulary],
        examples: Sequence[Example],
        **options: Any,
    ) -> tuple[Evaluation, dict[str, Any]]:
        """How good a model is, and what the record of a test set keeps beyond that.

        Parameters
        ----------
        model : AdaptiveModel
            The model.
        vocabularies : mapping of str to Vocabulary
            Those of the task it has learned: its data need not be there any more.
        examples : sequence
            At least one.
        **options
            Those of `judged_with` that are not to have their defaults.

        Returns
        -------
        tuple
            The evaluation, and what is JSON: by length, by group, and so on.
        """

    def evaluate(
        self, model: ModelT, vocabularies: Mapping[str, Vocabulary], examples: Sequence[Example]
    ) -> Evaluation:
        """How good a model is: `record` without the record."""
        return self.record(model, vocabularies, examples)[0]

    @abstractmethod
    def show(self, model: ModelT, task: TaskT) -> Iterator[str]:
        """What a model says of a few test examples, each with its steps."""

    @abstractmethod
    def generate(
        self,
        model: ModelT,
        vocabularies: Mapping[str, Vocabulary],
        texts: Sequence[str],
        options: Any,
    ) -> Iterator[Said]:
        """What a model says of each text.

        Parameters
        ----------
        model : AdaptiveModel
            The model.
        vocabularies : mapping of str to Vocabulary
            As for `record`.
        texts : sequence of str
            Read by `Vocabulary.read`.
        options : Any
            A `generation_kind`.
        """

    def read(self, path: str, vocabularies: Mapping[str, Vocabulary]) -> list[Example]:
        """Examples in a file of the user's own, to be judged by.

        Raises
        ------
        ValueError
            If this kind of tasks has no such files; or if a line cannot be read.
        """
        raise ValueError(f"{path}: {self.examples} cannot be read from a file")


AnyLearner = Learner[Any, Any, Any]
