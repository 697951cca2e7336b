"""Learning LAMBADA's last words, by learning to go on with a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import exp
from typing import Any, ClassVar

import torch

from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.lambada import Lambada
from graphut.experiments.tasks.vocabulary import UNKNOWN
from graphut.experiments.training.generation import steps_table
from graphut.experiments.training.learners.texts import TextLearner, TextScores
from graphut.models import UniversalTransformerLM
from graphut.models.outputs import LMOutput

_NUM_SHOWN = 2


class LambadaLearner(TextLearner):
    """The learner of LAMBADA: a language model is evaluated on the last word of each passage."""

    task_kind = Lambada
    most_shown = None
    examples: ClassVar[str] = "passages"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "word_accuracy": "share of last words that were the likeliest; unknown ones are wrong",
        "word_nats": "mean surprisal of those last words that are in the vocabulary",
        "known": "share of the last words that are in the vocabulary",
        "nats": "mean surprisal of a word, with all that are not in the vocabulary as one",
        "steps": "mean steps in which a word was predicted",
        "word_steps": "mean steps in which a last word was predicted",
    }
    rank_by = ("word_log_probability",)
    target_metric = "word_accuracy"
    summary = (
        "{word_accuracy:.2%} of last words right, perplexity {word_perplexity:.1f} (of the "
        "{known:.2%} in the vocabulary); perplexity of all words {perplexity:.1f}; mean steps "
        "{steps:.2f}, {word_steps:.2f} before a last word"
    )

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        """Return other forms of the two surprisals."""
        nats = metrics["word_nats"]
        last = {"word_log_probability": -nats, "word_perplexity": exp(nats)}
        return {**TextLearner.derived(metrics), **last}

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

    def verdict(self, output: LMOutput, vocabulary: Vocabulary) -> tuple[str, str, bool | None]:
        """Return the likeliest last word, and the right one."""
        last = [int(output.logits[-1].argmax()), int(output.labels[-1])]
        answer, right = vocabulary.readable(last)
        return answer, right, answer == right != UNKNOWN

    def show(self, model: UniversalTransformerLM, task: Lambada) -> Iterator[str]:
        """Yield a few passages, and the model's guess of their last word."""
        for text in task.test[:_NUM_SHOWN]:
            passage, answer = text.tokens[:-1], text.tokens[-1:]
            [found] = model.generate([passage], max_length=1)
            steps = found.source_steps + found.steps
            table = steps_table("text", task.vocabulary.readable(passage + found.tokens), steps)
            yield f"{table}\nright   {task.vocabulary.write(answer)}"
