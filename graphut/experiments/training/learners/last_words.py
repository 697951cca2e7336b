"""Training of language models, and their evaluation on the last word of a text."""

from collections.abc import Mapping, Sequence
from itertools import chain
from math import nan
from statistics import fmean
from typing import Any, ClassVar

from graphut.experiments.tasks.agreement import PLURAL, SINGULAR
from graphut.experiments.tasks.vocabulary import UNKNOWN
from graphut.experiments.training.learners.texts import TextLearner, TextScores, token_metrics
from graphut.models.outputs import LMOutput


class AgreementLearner(TextLearner):
    """Trains language models; tests if they prefer the verb form that agrees with the subject."""

    most_shown = None
    example: ClassVar[str] = "sentence"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "accuracy": "share of verbs whose correct form is likelier than the wrong one",
        "balanced_accuracy": "mean of the accuracies for verbs in the singular and in the plural",
        "nats": "mean surprisal of a token, verbs included",
        "steps": "mean steps of the nodes that predict a token",
        "verb_steps": "mean steps of the nodes that predict a verb",
    }
    rank_by = ("accuracy", "log_probability")
    summary = (
        "verb accuracy {accuracy:.2%} ({balanced_accuracy:.2%} balanced), steps {steps:.2f}, "
        "{verb_steps:.2f} before a verb"
    )

    @property
    def candidates(self) -> Sequence[int]:
        """Two token ids: of "VBZ" (a verb in the singular) and of "VBP" (in the plural)."""
        return self.vocabulary.encode([SINGULAR, PLURAL])

    def metrics(self, scores: TextScores) -> dict[str, float]:
        forms = self.candidates
        correct: dict[int, list[bool]] = {}
        for score in scores:
            form = forms.index(score.text.tokens[-1])
            likelier = bool(score.candidates[form] > score.candidates[1 - form])  # a tie is wrong
            correct.setdefault(form, []).append(likelier)
        tokens = token_metrics(scores)
        return {
            "accuracy": fmean(chain.from_iterable(correct.values())),
            "balanced_accuracy": fmean(map(fmean, correct.values())),
            "nats": tokens["nats"],
            "steps": tokens["steps"],
            "verb_steps": fmean(int(score.steps[-1]) for score in scores),
        }

    def verdict(self, output: LMOutput) -> tuple[str, str, bool | None]:
        forms, correct = [*self.candidates], int(output.labels[-1])
        logits = output.logits[-1, forms]
        likelier = forms[int(logits.argmax())]
        answer, correct_form = self.vocabulary.readable([likelier, correct])
        return answer, correct_form, likelier == correct and bool(logits[0] != logits[1])


class LambadaLearner(TextLearner):
    """Trains language models on LAMBADA, and tests them on the last word of each text."""

    most_shown = None
    example: ClassVar[str] = "passage"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "word_accuracy": "share of likeliest words that are the last word; unknown words are wrong",
        "word_nats": "mean surprisal of the last words that are in the vocabulary",
        "known": "share of the last words that are in the vocabulary",
        "nats": "mean surprisal of a word; all unknown words are one word",
        "steps": "mean steps of the nodes that predict a word",
        "word_steps": "mean steps of the nodes that predict a last word",
    }
    rank_by = ("word_log_probability",)
    target_metric = "word_accuracy"
    summary = (
        "last words: accuracy {word_accuracy:.2%}, perplexity {word_perplexity:.1f} of the "
        "{known:.2%} in the vocabulary, steps {word_steps:.2f}; all words: perplexity "
        "{perplexity:.1f}, steps {steps:.2f}"
    )

    @staticmethod
    def derived(metrics: Mapping[str, Any]) -> dict[str, Any]:
        last = TextLearner.derived({"nats": metrics["word_nats"]})
        names = ("log_probability", "perplexity")
        return {**TextLearner.derived(metrics), **{f"word_{name}": last[name] for name in names}}

    def metrics(self, scores: TextScores) -> dict[str, float]:
        [unknown] = self.vocabulary.encode([UNKNOWN])
        in_vocabulary = [score for score in scores if score.text.tokens[-1] != unknown]
        tokens = token_metrics(scores)
        return {
            "word_accuracy": sum(bool(score.correct[-1]) for score in in_vocabulary) / len(scores),
            "word_nats": fmean(float(score.nats[-1]) for score in in_vocabulary)
            if in_vocabulary
            else nan,
            "known": len(in_vocabulary) / len(scores),
            "nats": tokens["nats"],
            "steps": tokens["steps"],
            "word_steps": fmean(int(score.steps[-1]) for score in scores),
        }

    def verdict(self, output: LMOutput) -> tuple[str, str, bool | None]:
        last = [int(output.logits[-1].argmax()), int(output.labels[-1])]
        answer, correct = self.vocabulary.readable(last)
        return answer, correct, answer == correct != UNKNOWN
