"""Learning to answer with a word of what was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from math import log
from statistics import fmean
from typing import Any, ClassVar

import torch

from graphut.experiments.tasks import Passage, PassageTask, Vocabularies
from graphut.experiments.training.evaluation import Evaluation, score_batches
from graphut.experiments.training.generation import steps_table
from graphut.experiments.training.learner import Outcome, Reading, ReadingLearner, count_nodes
from graphut.models import UniversalTransformerPointer
from graphut.models.outputs import PointerOutput
from graphut.models.pointer import likeliest, log_probability

_BATCH = 100
_LEAST = 1e-12  # of a probability whose logarithm is taken


@dataclass(frozen=True)
class PassageScore:
    """One answer beside the right one."""

    answerable: bool  # whether the passage has its answer
    right: bool
    probability: float  # of the right answer
    steps: list[int]  # of each word


class PassageLearner(ReadingLearner[Passage, PassageTask, UniversalTransformerPointer]):
    """The learner of passages, with a pointer at their words."""

    task_kind = PassageTask
    model_kind = UniversalTransformerPointer
    from_task = ("vocab_size",)
    table = staticmethod(partial(steps_table, "input"))
    example: ClassVar[str] = "passage"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "accuracy": "share of right answers; a passage that does not have its answer is wrong",
        "answerable_accuracy": "the same over the passages that have it; 0 if there are none",
        "log_probability": "mean, in nats, of the right answers that can be given",
        "answerable": "share of the passages that have their answer",
        "steps": "mean steps of a word",
        "last_steps": "mean steps of a passage's last word, which asks for the answer",
    }
    rank_by = ("accuracy", "log_probability")
    target_metric = "answerable_accuracy"
    summary = (
        "{accuracy:.2%} of answers right, {answerable_accuracy:.2%} of those that can be; mean "
        "steps {steps:.2f} of a word, {last_steps:.2f} of the last"
    )

    def sizes(self, task: PassageTask) -> dict[str, int]:
        """Return the words of the vocabulary."""
        return {"vocab_size": len(task.vocabulary)}

    def outcome(
        self, model: UniversalTransformerPointer, batch: list[Passage], label_smoothing: float
    ) -> Outcome:
        """Return the loss of the answers, where passages have them; smoothed over all words."""
        output = model([passage.context for passage in batch])
        answers = torch.tensor([passage.answer for passage in batch], device=model.device)
        log_likely = log_probability(output, answers)
        # A passage without its answer teaches nothing.
        has_answer = torch.tensor([passage.answer in passage.context for passage in batch])
        answerable = int(has_answer.sum())
        sharp = torch.where(log_likely.isfinite(), log_likely, 0.0).sum() / max(answerable, 1)
        each = torch.repeat_interleave(has_answer / output.lengths, output.lengths)
        even = (output.scores * each.to(model.device)).sum() / max(answerable, 1)
        return Outcome(
            loss=-(1 - label_smoothing) * sharp - label_smoothing * even,
            right=(likeliest(output)[0] == answers).sum(),
            labels=len(batch),
            learned=answerable,
            ponders={"encoder": output.ponder},
        )

    def counts(self, model: UniversalTransformerPointer, batch: list[Passage]) -> dict[str, int]:
        """Count the passages that have their answers, and the nodes: words."""
        lengths = [len(passage.context) for passage in batch]
        answerable = sum(passage.answer in passage.context for passage in batch)
        return {"loss": answerable, "encoder": count_nodes(model.topology, lengths)}

    def evaluate_in_detail(
        self,
        model: UniversalTransformerPointer,
        vocabularies: Vocabularies,
        examples: Sequence[Passage],
        **options: Any,
    ) -> tuple[Evaluation, dict[str, Any]]:
        """Answer, and compare; there are no details."""
        return self.evaluation(**passage_metrics(score_passages(model, examples))), {}

    def parse(self, text: str, vocabularies: Vocabularies) -> Reading:
        """Return the words of a text; of letters without spaces between them, each letter."""
        vocabulary = vocabularies["text"]
        names, tokens = text.split(), vocabulary.read(text)
        return Reading(names if len(names) == len(tokens) else vocabulary.readable(tokens), tokens)

    def reading(self, example: Passage, task: PassageTask) -> tuple[Reading, str]:
        """Return the words of a passage, and the word that is to come next."""
        *words, right = task.vocabulary.readable([*example.context, example.answer])
        return Reading(words, example.context), right

    def likeliest(
        self, output: PointerOutput, reading: Reading, vocabularies: Vocabularies
    ) -> tuple[str, float]:
        """Return the likeliest word, as it stands in the text."""
        word, likely = (each.item() for each in likeliest(output))
        return reading.names[reading.tokens.index(word)], likely


def score_passages(
    model: UniversalTransformerPointer, passages: Sequence[Passage]
) -> list[PassageScore]:
    """Compare answers with the right ones, from the shortest passage to the longest."""

    def score(batch: list[Passage]) -> list[PassageScore]:
        found = model.predict([passage.context for passage in batch])
        return [
            PassageScore(
                answerable=answer in words,
                right=own.word == answer,
                probability=sum(compress(own.probabilities, [w == answer for w in words])),
                steps=own.steps,
            )
            for own, (words, answer) in zip(found, batch, strict=True)
        ]

    scores = score_batches(score, passages, _BATCH, lambda p: len(p.context), "passages")
    return [*chain.from_iterable(scores)]


def passage_metrics(scores: Sequence[PassageScore]) -> dict[str, float]:
    """Return shares of what is right, and means of steps."""
    answerable = [score for score in scores if score.answerable]
    logs = [log(max(score.probability, _LEAST)) for score in answerable]
    return {
        "accuracy": fmean(score.right for score in scores),
        "answerable_accuracy": fmean(s.right for s in answerable) if answerable else 0.0,
        "log_probability": fmean(logs) if logs else 0.0,
        "answerable": fmean(score.answerable for score in scores),
        "steps": fmean(chain.from_iterable(score.steps for score in scores)),
        "last_steps": fmean(score.steps[-1] for score in scores),
    }
