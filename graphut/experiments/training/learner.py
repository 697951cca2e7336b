"""The interface between the tasks of one kind, and the training loop and the command line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from graphut.experiments.generation_options import NoOptions
from graphut.experiments.tasks import Task, Vocabularies
from graphut.experiments.tasks.base import in_batches
from graphut.experiments.training.evaluation import Evaluation
from graphut.experiments.training.generation import GeneratedText, PonderedPart
from graphut.models.base import AdaptiveModel
from graphut.models.config import ModelConfig
from graphut.nn import Ponder
from graphut.topology import Topology

Example = TypeVar("Example")
TaskT = TypeVar("TaskT", bound=Task)
ModelT = TypeVar("ModelT", bound=AdaptiveModel)

_NUM_SHOWN = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """The loss of a model on a batch, and what the metrics of an epoch are made of."""

    loss: Tensor  # a scalar: the mean over labels of the cross-entropy, in nats
    right: Tensor  # a scalar: how many labels are the likeliest
    labels: int  # how many there are
    learned: int | None = None  # how many of them the loss is the mean of, if not of all
    ponders: Mapping[str, Ponder]  # of the nodes of each part, such as "encoder" and "decoder"
    # Losses that are added, by name, each with the number of things that it is the mean of.
    added: Mapping[str, tuple[Tensor, int]] = field(default_factory=dict)
    # The same for losses whose weight rises during training: see `late_share`.
    late: Mapping[str, tuple[Tensor, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, logits: Tensor, labels: Tensor, label_smoothing: float, **ponders: Ponder
    ) -> Outcome:
        """Return the outcome of logits, `(N, classes)`, for labels, `(N,)`, all of which count."""
        return cls(
            loss=cross_entropy(logits, labels, label_smoothing=label_smoothing),
            right=(logits.argmax(-1) == labels).sum(),
            labels=labels.numel(),
            ponders=ponders,
        )

    @property
    def counts(self) -> dict[str, int]:
        """Return how many labels each loss is the mean of, and how many nodes each part has."""
        learned = self.labels if self.learned is None else self.learned
        added = {name: number for name, (_, number) in {**self.added, **self.late}.items()}
        nodes = {name: ponder.steps.numel() for name, ponder in self.ponders.items()}
        return {"loss": learned, **added, **nodes}

    def total_loss(
        self,
        ponder_weight: float,
        counts: Mapping[str, int] | None = None,
        late_share: float = 1.0,
    ) -> Tensor:
        """Return the losses plus the weighted ponder cost (arXiv 1603.08983, Eq. 13).

        The losses in `late` are multiplied by `late_share`. The cost of each part is the mean over
        its nodes. If the batch is a part of a larger one, with these `counts`, return what it adds
        to the means of that one.
        """
        own = self.counts
        share = {name: own[name] / max(whole, 1) for name, whole in (counts or own).items()}
        added = sum(share[name] * loss for name, (loss, _) in self.added.items())
        late = sum(share[name] * loss for name, (loss, _) in self.late.items())
        cost = sum(share[name] * ponder.cost for name, ponder in self.ponders.items())
        return share["loss"] * self.loss + added + late_share * late + ponder_weight * cost


class ExampleAnswer(NamedTuple):
    """The answer of a model to an example, and how each part of the model pondered over it."""

    answer: str
    right_answer: str  # empty where the answer says by itself what is right
    is_right: bool | None  # None where an example has many answers, each right or wrong
    parts: list[PonderedPart]


class Learner(ABC, Generic[Example, TaskT, ModelT]):
    """The way in which tasks of one kind are learned, evaluated and shown."""

    # The base class of its tasks. Of several learners that fit, the one with the nearest is taken.
    task_kind: ClassVar[type[Task]]
    model_kind: ClassVar[type[AdaptiveModel]]  # the model that learns them
    # A dataclass: the options of `generate`, each with a "help" in its metadata.
    generation_kind: ClassVar[type[Any]] = NoOptions
    evaluation_options: ClassVar[Sequence[str]] = ()  # those of them for `evaluate_in_detail`
    from_task: ClassVar[Sequence[str]]  # fields of the model's configuration: see `sizes`
    example: ClassVar[str]  # what an example is called
    metric_meanings: ClassVar[Mapping[str, str]]  # the metrics of an evaluation
    # Of two evaluations, the one with the greater first of these metrics is better; and so on.
    rank_by: ClassVar[Sequence[str]]
    target_metric: ClassVar[str]  # what `TrainingConfig.target_accuracy` is compared with
    summary: ClassVar[str]  # one line of text, with metrics in braces

    @property
    def config_kind(self) -> type[ModelConfig]:
        """Return the class of the model's configuration."""
        return self.model_kind.config_class

    @abstractmethod
    def sizes(self, task: TaskT) -> dict[str, Any]:
        """Return the values of `from_task` for a task."""

    @abstractmethod
    def outcome(self, model: ModelT, batch: list[Example], label_smoothing: float) -> Outcome:
        """Return the loss of the model on a batch of training examples."""

    def counts(self, model: ModelT, batch: list[Example]) -> dict[str, int]:
        """Return the `Outcome.counts` of a batch, of which a process may compute a part only.

        This runs the model. A learner that can do without overrides it.
        """
        with torch.no_grad(), model.evaluating():
            return self.outcome(model, batch, 0.0).counts

    @classmethod
    def evaluation(cls, *values: Any, **metrics: Any) -> Evaluation:
        """Return the evaluation with these metrics, by name or in the order of the meanings.

        Raise `TypeError` if a metric is missing or unknown.
        """
        metrics = {**dict(zip(cls.metric_meanings, values, strict=False)), **metrics}
        if metrics.keys() != cls.metric_meanings.keys():
            names = ", ".join(cls.metric_meanings)
            raise TypeError(f"the metrics are {names}; got {', '.join(metrics) or 'none'}")
        metrics = {name: metrics[name] for name in cls.metric_meanings}
        known = {**metrics, **cls.derived(metrics)}
        rank = tuple(known[name] for name in cls.rank_by)
        return Evaluation(metrics, rank, known[cls.target_metric], cls.summary.format(**known))

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return values that `rank_by`, `target_metric` and `summary` name beside the metrics."""
        return {}

    @abstractmethod
    def evaluate_in_detail(
        self, model: ModelT, vocabularies: Vocabularies, examples: Sequence[Example], **options: Any
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Return the evaluation on examples, and its details: JSON, by length, by group, ...

        The vocabularies belong to the task, whose data need not be there any more. The options
        have names from `evaluation_options`.
        """

    def evaluate(
        self, model: ModelT, vocabularies: Vocabularies, examples: Sequence[Example]
    ) -> Evaluation:
        """Return the evaluation of a model, without details."""
        return self.evaluate_in_detail(model, vocabularies, examples)[0]

    @abstractmethod
    def show(self, model: ModelT, task: TaskT) -> Iterator[str]:
        """Yield the answers of a model to a few test examples, each with its steps."""

    @abstractmethod
    def generate(
        self, model: ModelT, vocabularies: Vocabularies, texts: Sequence[str], options: Any
    ) -> Iterator[GeneratedText]:
        """Yield the answer to each text; `options` is a `generation_kind`."""

    @abstractmethod
    def answer(self, model: ModelT, task: TaskT, example: Example) -> ExampleAnswer:
        """Return the answer to an example, greedily, and how the model pondered over it."""

    def answers(
        self, model: ModelT, task: TaskT, examples: Sequence[Example]
    ) -> list[ExampleAnswer]:
        """Return the answers to examples: overridden where all together take less time."""
        return [self.answer(model, task, example) for example in examples]

    def look_inside(
        self, model: ModelT, vocabularies: Vocabularies, text: str, options: Any
    ) -> tuple[str, list[PonderedPart]]:
        """Return the answer to a text, and how each part of the model pondered over it.

        `options` is a `generation_kind`. Raise `ValueError` if the task is not about texts.
        """
        raise ValueError(f"{self.example}s are no texts: there is no text to think about")

    def read(
        self, path: str, vocabularies: Vocabularies, config: Any, task: TaskT
    ) -> list[Example]:
        """Return the examples in a user's file, for a model with the configuration.

        The data of the task need not be there. Raise `ValueError` if the examples cannot be read,
        or one is longer than the model takes.
        """
        raise ValueError(f"{path}: {self.example}s cannot be read from a file")

    def count_flops(
        self, model: ModelT, examples: Sequence[Example], batch_size: int
    ) -> dict[str, float]:
        """Return the operations of an example, their share of all, and the share of right labels.

        All would be done if no node halted. Counted are the steps that were done, forward, with
        the answers fed in, without normalisations and activations. `fed_accuracy` is the share of
        labels that are right with the answers fed in. As many examples are run at a time as in 4
        batches of training, but at most 100.
        """
        done = everything = right = labels = 0
        size = min(4 * batch_size, 100)  # without gradients an example takes less memory
        with torch.no_grad(), model.evaluating():
            for batch in in_batches(examples, size):
                outcome = self.outcome(model, batch, 0.0)
                right, labels = right + int(outcome.right), labels + outcome.labels
                for ponder in outcome.ponders.values():
                    done += int(ponder.flops)
                    everything += int(ponder.all_flops)
        flops = {"flops_per_example": done / len(examples), "flops_share": done / everything}
        return {**flops, "fed_accuracy": right / labels}


class Reading(NamedTuple):
    """A text as a model reads it."""

    names: list[str]  # its words, or its sentences
    tokens: list[Any]  # their token ids


class ReadingLearner(Learner[Example, TaskT, ModelT]):
    """The base of learners whose model reads a text and names one answer to it."""

    table: ClassVar[Any]  # a function: from names and their steps to a table of them

    @abstractmethod
    def parse(self, text: str, vocabularies: Vocabularies) -> Reading:
        """Return a user's text as the model reads it."""

    @abstractmethod
    def reading(self, example: Example, task: TaskT) -> tuple[Reading, str]:
        """Return an example as the model reads it, and its right answer."""

    @abstractmethod
    def likeliest(
        self, output: Any, reading: Reading, vocabularies: Vocabularies
    ) -> tuple[str, float]:
        """Return the likeliest answer in an output of the model, and its log-probability."""

    @torch.no_grad()
    def _think(
        self, model: ModelT, reading: Reading, vocabularies: Vocabularies
    ) -> tuple[GeneratedText, PonderedPart]:
        with model.evaluating():
            output = model([reading.tokens], get_attention=True)
        answer, likely = self.likeliest(output, reading, vocabularies)
        table = self.table(reading.names, output.ponder.steps.tolist())
        said = GeneratedText(answer, f"{table}\nanswer  {answer} ({exp(likely):.1%})")
        return said, PonderedPart("encoder", reading.names, reading.names, output.ponder)

    def show(self, model: ModelT, task: TaskT) -> Iterator[str]:
        """Yield the answers to a few examples, beside the right ones."""
        for example in task.test[:_NUM_SHOWN]:
            reading, right = self.reading(example, task)
            said, _ = self._think(model, reading, task.vocabularies)
            yield f"{said.with_steps}; right: {right}"

    def generate(
        self, model: ModelT, vocabularies: Vocabularies, texts: Sequence[str], options: Any
    ) -> Iterator[GeneratedText]:
        """Yield the answer to each text, and the steps of all that was read."""
        for text in texts:
            yield self._think(model, self.parse(text, vocabularies), vocabularies)[0]

    def look_inside(
        self, model: ModelT, vocabularies: Vocabularies, text: str, options: Any
    ) -> tuple[str, list[PonderedPart]]:
        """Return the answer to a text, and how the model pondered over it."""
        said, part = self._think(model, self.parse(text, vocabularies), vocabularies)
        return said.text, [part]

    def answer(self, model: ModelT, task: TaskT, example: Example) -> ExampleAnswer:
        """Return the answer to an example."""
        reading, right = self.reading(example, task)
        said, part = self._think(model, reading, task.vocabularies)
        return ExampleAnswer(said.text, right, said.text == right, [part])


def count_nodes(topology: Topology, lengths: Sequence[int]) -> int:
    """Return how many nodes sentences of these lengths have, with the extra ones."""
    tokens = torch.tensor(lengths)
    return int((tokens + topology.extra_nodes(tokens)).sum())


AnyLearner = Learner[Any, Any, Any]
