"""Learning to answer with a word of what was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp
from typing import Any, ClassVar

import torch

from graphut.experiments.tasks import Passage, PassageTask, Vocabulary
from graphut.experiments.training.learner import Learner, Outcome, Said
from graphut.experiments.training.learners.passage_judgement import (
    PassageEvaluation,
    judge,
    summarize,
)
from graphut.experiments.training.table import steps_table
from graphut.models import UniversalTransformerPointer
from graphut.models.outputs import PointerPrediction
from graphut.models.pointer import likeliest, log_probability

_SHOWN = 3


class PassageLearner(Learner[Passage, PassageTask, UniversalTransformerPointer]):
    """Passages are learned by a pointer at their words."""

    task_kind = PassageTask
    model_kind = UniversalTransformerPointer
    evaluation_kind = PassageEvaluation
    from_task = ("vocab_size",)
    examples: ClassVar[str] = "passages"

    def sizes(self, task: PassageTask) -> dict[str, int]:
        """Words of the vocabulary."""
        return {"vocab_size": len(task.vocabulary)}

    def outcome(
        self, model: UniversalTransformerPointer, batch: list[Passage], label_smoothing: float
    ) -> Outcome:
        """How likely the answers are, where passages have them; smoothed over their places."""
        output = model([passage.context for passage in batch])
        answers = torch.tensor([passage.answer for passage in batch], device=model.device)
        likely = log_probability(output, answers)
        # A passage without its answer teaches nothing.
        can_be = sum(passage.answer in passage.context for passage in batch)
        sharp = torch.where(likely.isfinite(), likely, 0.0).sum() / max(can_be, 1)
        each = torch.repeat_interleave(1 / output.lengths, output.lengths).to(model.device)
        even = (output.scores * each).sum() / len(batch)
        return Outcome(
            prediction=-(1 - label_smoothing) * sharp - label_smoothing * even,
            right=(likeliest(output)[0] == answers).sum(),
            labels=len(batch),
            ponders={"encoder": output.ponder},
        )

    def record(
        self,
        model: UniversalTransformerPointer,
        vocabularies: Mapping[str, Vocabulary],
        examples: Sequence[Passage],
        **options: Any,
    ) -> tuple[PassageEvaluation, dict[str, Any]]:
        """The evaluation says it all."""
        return summarize(judge(model, examples)), {}

    def show(self, model: UniversalTransformerPointer, task: PassageTask) -> Iterator[str]:
        """The answers to a few passages, beside the right ones."""
        passages = task.test[:_SHOWN]
        found = model.predict([passage.context for passage in passages])
        for passage, pointing in zip(passages, found, strict=True):
            words = task.vocabulary.readable(passage.context)
            [right] = task.vocabulary.readable([passage.answer])
            yield f"{_pointed(words, passage.context, pointing)}; right: {right}"

    def generate(
        self,
        model: UniversalTransformerPointer,
        vocabularies: Mapping[str, Vocabulary],
        texts: Sequence[str],
        options: Any,
    ) -> Iterator[Said]:
        """The word of each text that is to come next, and the steps of all."""
        for text in texts:
            context = vocabularies["text"].read(text)
            [found] = model.predict([context])
            words = text.split()
            yield Said(words[context.index(found.word)], _pointed(words, context, found))


def _pointed(words: Sequence[str], context: Sequence[int], found: PointerPrediction) -> str:
    """Words with their steps, and the answer."""
    answer = words[context.index(found.word)]
    share = exp(found.log_probability)
    return f"{steps_table('input', words, found.steps)}\nanswer  {answer} ({share:.1%})"
