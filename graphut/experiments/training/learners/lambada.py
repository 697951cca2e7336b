"""Learning LAMBADA's last words, by learning to go on with a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp
from typing import ClassVar

import torch

from graphut.experiments.tasks import Lambada, Vocabulary
from graphut.experiments.tasks.vocabulary import UNKNOWN
from graphut.experiments.training.learner import Evaluation
from graphut.experiments.training.learners.text_judgement import Scores
from graphut.experiments.training.learners.texts import TextLearner
from graphut.experiments.training.table import steps_table
from graphut.models import UniversalTransformerLM

_SHOWN = 2


@dataclass(frozen=True)
class LambadaEvaluation(Evaluation):
    """How good a model is on passages; the less their last words surprise it, the greater.

    Parameters
    ----------
    word_accuracy : float
        Share of the passages whose last word was the likeliest; unknown ones are wrong.
    word_nats : float
        Mean surprisal of those last words that are in the vocabulary.
    known : float
        Share of the last words that are in the vocabulary.
    nats : float
        Mean surprisal of a word, whichever it is, of all that is not in the vocabulary as one.
    steps, word_steps : float
        Mean steps in which a word, and in which a last word was predicted.
    """

    word_accuracy: float
    word_nats: float
    known: float
    nats: float
    steps: float
    word_steps: float

    @property
    def rank(self) -> tuple[float, ...]:
        """How little a last word surprises."""
        return (-self.word_nats,)

    def __str__(self) -> str:
        return (
            f"{self.word_accuracy:.2%} of last words right, perplexity {exp(self.word_nats):.1f} "
            f"(of the {self.known:.2%} in the vocabulary); perplexity of all words "
            f"{exp(self.nats):.1f}; mean steps {self.steps:.2f}, {self.word_steps:.2f} before a "
            "last word"
        )

    def reached(self, target: float) -> bool:
        """Whether so large a share of the last words is right."""
        return self.word_accuracy >= target


class LambadaLearner(TextLearner):
    """A language model is judged by the last word of each passage."""

    task_kind = Lambada
    evaluation_kind = LambadaEvaluation
    examples: ClassVar[str] = "passages"

    def judge(self, scores: Scores, vocabulary: Vocabulary) -> LambadaEvaluation:
        """Look at the last words by themselves."""
        answers = torch.tensor([text.tokens[-1] for text in scores.texts])
        unknown = vocabulary.encode([UNKNOWN])[0]
        known = answers != unknown
        last, found = scores.last, scores.evaluation()
        return LambadaEvaluation(
            word_accuracy=float((scores.right[last] & known).double().mean()),
            word_nats=float(scores.nats[last][known].mean()),
            known=float(known.double().mean()),
            nats=found.nats,
            steps=found.steps,
            word_steps=float(scores.steps[last].double().mean()),
        )

    def show(self, model: UniversalTransformerLM, task: Lambada) -> Iterator[str]:
        """A few passages, and what the model takes for their last word."""
        for text in task.test[:_SHOWN]:
            passage, answer = text.tokens[:-1], text.tokens[-1:]
            [found] = model.generate([passage], max_length=1)
            steps = found.source_steps + found.steps
            table = steps_table("text", task.vocabulary.readable(passage + found.tokens), steps)
            yield f"{table}\nright   {task.vocabulary.write(answer)}"
