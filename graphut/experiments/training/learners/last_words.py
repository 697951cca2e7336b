"""Learning to go on with a text, to be judged by its last word: a verb, or that of a passage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp
from typing import Any, ClassVar

import torch

from graphut.experiments.tasks import Vocabulary
from graphut.experiments.tasks.agreement import PLURAL, SINGULAR, Agreement
from graphut.experiments.tasks.lambada import Lambada
from graphut.experiments.tasks.vocabulary import UNKNOWN
from graphut.experiments.training.generation import steps_table, written_tokens
from graphut.experiments.training.learners.texts import TextLearner, TextScores, score_texts
from graphut.models import UniversalTransformerLM
from graphut.models.outputs import LMOutput

_VERBS_SHOWN, _PASSAGES_SHOWN = 3, 2


class AgreementLearner(TextLearner):
    """The learner of agreement: a language model says which form of the last verb is likelier."""

    task_kind = Agreement
    most_shown = None
    example: ClassVar[str] = "sentence"
    metric_meanings: ClassVar[Mapping[str, str]] = {
        "accuracy": "share of the verbs whose right form is likelier than the wrong one",
        "balanced_accuracy": "mean of the shares among verbs in the singular and in the plural",
        "nats": "mean surprisal of a token, verbs included",
        "steps": "mean steps in which a token was predicted",
        "verb_steps": "mean steps in which a verb was predicted",
    }
    rank_by = ("accuracy", "log_probability")
    summary = (
        "{accuracy:.2%} of verbs right ({balanced_accuracy:.2%} balanced); mean steps {steps:.2f}, "
        "{verb_steps:.2f} before a verb"
    )

    def candidates(self, vocabulary: Vocabulary) -> Sequence[int]:
        """Return the two forms."""
        return vocabulary.encode([SINGULAR, PLURAL])

    def metrics(self, scores: TextScores, vocabulary: Vocabulary) -> dict[str, float]:
        """Compare the two forms."""
        forms = self.candidates(vocabulary)
        wanted = torch.tensor([forms.index(text.tokens[-1]) for text in scores.texts])
        logits = scores.candidates.gather(1, torch.stack([wanted, 1 - wanted], 1))
        right = (logits[:, 0] > logits[:, 1]).double()  # a tie is wrong
        by_form = [right[wanted == form] for form in (0, 1)]
        tokens = scores.metrics()
        return {
            "accuracy": float(right.mean()),
            "balanced_accuracy": float(torch.stack([r.mean() for r in by_form if len(r)]).mean()),
            "nats": tokens["nats"],
            "steps": tokens["steps"],
            "verb_steps": float(scores.steps[scores.last].double().mean()),
        }

    def verdict(self, output: LMOutput, vocabulary: Vocabulary) -> tuple[str, str, bool | None]:
        """Return the likelier form of the verb, and the right one."""
        forms, right = [*self.candidates(vocabulary)], int(output.labels[-1])
        logits = output.logits[-1, forms]
        likelier = forms[int(logits.argmax())]
        answer, wanted = vocabulary.readable([likelier, right])
        return answer, wanted, likelier == right and bool(logits[0] != logits[1])

    def show(self, model: UniversalTransformerLM, task: Agreement) -> Iterator[str]:
        """Yield a few sentences up to the verb, and how likely the right one of two forms is."""
        forms = self.candidates(task.vocabulary)
        for text in task.test[:_VERBS_SHOWN]:
            scores = score_texts(model, [text], forms)
            share = scores.candidates[0].softmax(0)[forms.index(text.tokens[-1])]
            words = task.vocabulary.readable(text.tokens)
            table = steps_table("text", words, scores.steps.tolist())
            yield f"{table}\nright   {share:.1%} for {words[-1]}, against the other form"


class LambadaLearner(TextLearner):
    """The learner of LAMBADA: a language model is evaluated on the last word of each passage."""

    task_kind = Lambada
    most_shown = None
    example: ClassVar[str] = "passage"
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
        for text in task.test[:_PASSAGES_SHOWN]:
            passage, answer = text.tokens[:-1], text.tokens[-1:]
            [found] = model.generate([passage], max_length=1)
            words = task.vocabulary.readable(passage + written_tokens(found))
            table = steps_table("text", words, found.source_steps + found.steps)
            yield f"{table}\nright   {task.vocabulary.write(answer)}"
