"""Learners: one class for each kind of task, which trains and evaluates the models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from graphut.experiments.tasks import Task, Vocabularies, Vocabulary
from graphut.experiments.tasks.base import in_batches
from graphut.experiments.training.evaluation import Evaluation
from graphut.experiments.training.generation import Answer
from graphut.models.adaptive_model import AdaptiveModel
from graphut.nn import Ponder

Example = TypeVar("Example")
TaskT = TypeVar("TaskT", bound=Task)
ModelT = TypeVar("ModelT", bound=AdaptiveModel)


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """The losses of a model on a batch, with the counts for the metrics of an epoch."""

    loss: Tensor  # scalar: mean cross-entropy over the labels, in nats
    correct: Tensor  # scalar: number of labels that are predicted correctly
    labels: int  # number of labels
    learned: int | None = None  # number of labels that `loss` averages, if not all
    ponders: Mapping[str, Ponder]  # for each part of the model, such as "encoder"
    # Further losses by name, each with the number of terms that it averages.
    added: Mapping[str, tuple[Tensor, int]] = field(default_factory=dict)
    # The same for losses whose weight rises during training: see `late_share`.
    late: Mapping[str, tuple[Tensor, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, logits: Tensor, labels: Tensor, label_smoothing: float, **ponders: Ponder
    ) -> Outcome:
        """Return the loss and counts of a classifier: logits `(N, classes)`, labels `(N,)`."""
        return cls(
            loss=cross_entropy(logits, labels, label_smoothing=label_smoothing),
            correct=(logits.argmax(-1) == labels).sum(),
            labels=labels.numel(),
            ponders=ponders,
        )

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of terms averaged in each loss, and of nodes in encoder and decoder."""
        learned = self.labels if self.learned is None else self.learned
        added = {name: number for name, (_, number) in {**self.added, **self.late}.items()}
        nodes = {name: ponder.steps.numel() for name, ponder in self.ponders.items()}
        return {"loss": learned, **added, **nodes}

    def total_loss(
        self, ponder_weight: float, counts: Mapping[str, int] | None = None, late_share: float = 1.0
    ) -> Tensor:
        """Return the sum of the losses and the weighted ponder cost (arXiv 1603.08983, Eq. 13).

        `late_share` is the factor of the losses in `late`. The ponder cost of a part of the model
        is a mean over its nodes. With the `counts` of a larger batch that contains this batch,
        return the contribution of this batch to the loss of the larger batch.
        """
        whole = counts or self.counts
        share = {name: count / max(whole[name], 1) for name, count in self.counts.items()}
        added = sum(share[name] * loss for name, (loss, _) in self.added.items())
        late = sum(share[name] * loss for name, (loss, _) in self.late.items())
        cost = sum(share[name] * ponder.cost for name, ponder in self.ponders.items())
        return share["loss"] * self.loss + added + late_share * late + ponder_weight * cost


class Learner(ABC, Generic[Example, TaskT, ModelT]):
    """A base class of learners, which train, evaluate and use a model for one kind of task."""

    model_kind: ClassVar[type[AdaptiveModel]]
    example: ClassVar[str]  # noun for an example
    metric_meanings: ClassVar[Mapping[str, str]]  # explanation of each metric of an evaluation
    rank_by: ClassVar[Sequence[str]]  # metrics that compare evaluations, the most important first
    target_metric: ClassVar[str]  # metric that is compared with `TrainingConfig.target_accuracy`
    summary: ClassVar[str]  # format string of one line, with names of metrics

    def __init__(self, model: ModelT, vocabularies: Vocabularies) -> None:
        self.model = model
        self.vocabularies = model.vocabularies = {**vocabularies}

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the texts, for tasks with a single one."""
        return self.vocabularies["text"]

    def prepare(self, task: TaskT) -> None:
        """Set the buffers of the model that are computed from training examples, such as scales."""

    @abstractmethod
    def outcome(self, batch: list[Example], label_smoothing: float) -> Outcome:
        """Run the model on a batch of training examples, and return the losses."""

    @classmethod
    def evaluation(cls, **metrics: Any) -> Evaluation:
        """Return an `Evaluation` with these metrics."""
        metrics = {name: metrics[name] for name in cls.metric_meanings}
        values = {**metrics, **cls.derived(metrics)}
        rank = tuple(values[name] for name in cls.rank_by)
        return Evaluation(metrics, rank, values[cls.target_metric], cls.summary.format(**values))

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Compute further values, which rank models, end training, or appear in the summary."""
        return {}

    @abstractmethod
    def evaluate_in_detail(
        self, examples: Sequence[Example], **options: Any
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Return an evaluation on examples, and details for a JSON file, such as metrics by length.

        `options` are `EVALUATION_OPTIONS`. The files of the task are not needed.
        """

    def parse(self, text: str) -> Any:
        """Encode a user's text, as `generate` does; raise `ValueError` if it cannot be read."""
        raise ValueError(f"a {self.example} cannot be typed: graphut eval FOLDER evaluates them")

    def generate(
        self, texts: Sequence[str], options: Any, *, get_attention: bool = False
    ) -> Iterator[Answer]:
        """Yield the output for each text; raise `ValueError` if the task's examples are no texts.

        With `get_attention`, the `parts` of an `Answer` (encoder, decoder) contain attention
        weights.
        """
        yield from map(self.parse, texts)

    def answers(self, examples: Sequence[Example]) -> list[Answer]:
        """Return the outputs for examples, with the correct answers and attention weights.

        A subclass overrides this method, for a whole batch, or `answer`, for a single example.
        """
        return [self.answer(example) for example in examples]

    def answer(self, example: Example) -> Answer:
        """Return the model's answer to one example; see `answers`."""
        return self.answers([example])[0]

    def read(self, path: str, task: TaskT) -> list[Example]:
        """Read examples from a user's file, without the files of the task.

        Raise `ValueError` if they cannot be read, or are longer than the model allows.
        """
        raise ValueError(f"{path}: {self.example}s cannot be read from a file")

    def count_flops(self, examples: Sequence[Example], batch_size: int) -> dict[str, float]:
        """Count the floating-point operations of the forward pass, with teacher forcing.

        `flops_per_example` is without normalisation and activations, `flops_share` the ratio to a
        pass in which no node halts, and `fed_accuracy` the accuracy with teacher forcing.
        """
        flops = all_flops = correct = labels = 0
        size = min(4 * batch_size, 100)  # without gradients an example takes less memory
        with torch.no_grad(), self.model.evaluating():
            for batch in in_batches(examples, size):
                outcome = self.outcome(batch, 0.0)
                correct, labels = correct + int(outcome.correct), labels + outcome.labels
                for ponder in outcome.ponders.values():
                    flops += int(ponder.flops)
                    all_flops += int(ponder.all_flops)
        return {
            "flops_per_example": flops / len(examples),
            "flops_share": flops / all_flops,
            "fed_accuracy": correct / labels,
        }


AnyLearner = Learner[Any, Any, Any]


def learner_of(task: Task | type[Task]) -> type[AnyLearner]:
    """Return the learner class of a task; raise `TypeError` if it has none."""
    learner = task.learner
    if isinstance(learner, str):  # imported only when it is needed
        module, _, name = learner.partition(":")
        learner = getattr(import_module(f"{__name__}.{module}"), name)
    if learner is None:
        name = (task if isinstance(task, type) else type(task)).__name__
        raise TypeError(f"{name} has no learner: derive it from PairTask, TextTask or GraphTask")
    kind: type[AnyLearner] = learner
    return kind


def evaluate(model: AdaptiveModel, task: Task, examples: Sequence[Any]) -> Evaluation:
    """Evaluate a model on examples of its task, such as `task.validation`."""
    if model.vocabularies and dict(model.vocabularies) != dict(task.vocabularies):
        raise ValueError("the model and the task have other vocabularies: ids mean other symbols")
    return learner_of(task)(model, task.vocabularies).evaluate_in_detail(examples)[0]
