"""Learning LAMBADA's last words, by learning to go on with a text."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from typing import ClassVar

import torch

from graphut.experiments.tasks import Lambada, Vocabulary
from graphut.experiments.tasks.words import UNKNOWN
from graphut.experiments.training.evaluation import Evaluation
from graphut.experiments.training.generation import steps_table
from graphut.experiments.training.learners.texts import TextLearner, TextScores
from graphut.models import UniversalTransformerLM

_NUM_SHOWN = 2


class LambadaLearner(TextLearner):
    """Evaluates a language model on the last word of each passage."""

    task_kind = Lambada  # type: ignore[assignment]
    examples: ClassVar[str] = "passages"

    def metrics(self, scores: TextScores, vocabulary: Vocabulary) -> dict[str, float]:
        """Look at the last words by themselves."""
        answers = torch.tensor([text.tokens[-1] for text in scores.texts])
        unknown = vocabulary.encode([UNKNOWN])[0]
        known = answers != unknown
        last, tokens = scores.last, scores.metrics()
        return {
            "word_accuracy": float((scores.right[last] & known).double().mean()),
            "word_nats": float(scores.nats[last][known].mean()),
            "known": float(known.double().mean()),
            "nats": tokens["nats"],
            "steps": tokens["steps"],
            "word_steps": float(scores.steps[last].double().mean()),
        }

    @staticmethod
    def evaluation(  # type: ignore[override]
        word_accuracy: float,
        word_nats: float,
        known: float,
        nats: float,
        steps: float,
        word_steps: float,
    ) -> Evaluation:
        """Return the evaluation with these metrics; less surprise by last words is better.

        Parameters
        ----------
        word_accuracy : float
            Share of the passages whose last word was the likeliest; unknown ones are wrong.
        word_nats : float
            Mean surprisal of those last words that are in the vocabulary.
        known : float
            Share of the last words that are in the vocabulary.
        nats : float
            Mean surprisal of a word, with all that are not in the vocabulary as one.
        steps, word_steps : float
            Mean steps in which a word, and in which a last word was predicted.
        """
        return Evaluation(
            locals(),
            rank=(-word_nats,),
            score=word_accuracy,
            summary=f"{word_accuracy:.2%} of last words right, perplexity {exp(word_nats):.1f} (of "
            f"the {known:.2%} in the vocabulary); perplexity of all words {exp(nats):.1f}; mean "
            f"steps {steps:.2f}, {word_steps:.2f} before a last word",
        )

    def show(self, model: UniversalTransformerLM, task: Lambada) -> Iterator[str]:
        """Yield a few passages, and the model's guess of their last word."""
        for text in task.test[:_NUM_SHOWN]:
            passage, answer = text.tokens[:-1], text.tokens[-1:]
            [found] = model.generate([passage], max_length=1)
            steps = found.source_steps + found.steps
            table = steps_table("text", task.vocabulary.readable(passage + found.tokens), steps)
            yield f"{table}\nright   {task.vocabulary.write(answer)}"
